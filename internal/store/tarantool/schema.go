package tarantool

import (
	"fmt"
	"slices"
)

// lastSystemSpace is the highest number of the server's own spaces.
const lastSystemSpace = 511

const anyType = "any"

// Schema is what a server said of its spaces at one version. It does not change.
type Schema struct {
	// Version is the one that all of it was read at. It means something only on connections
	// to the same process: a server that is started anew counts anew.
	Version uint64
	Server  Version
	live    *live    // that it was read on
	spaces  []*Space // by number
	byName  map[string]*Space
}

// Space is one space, or a view over others.
type Space struct {
	ID         uint32
	Name       string
	Engine     string // memtx, vinyl, sysview…
	FieldCount int    // tuples have exactly so many fields; 0: any number
	Fields     []Field
	Indexes    []Index // by number; 0, if it is there, is the primary one

	// View says that it is a view of SQL, and SQL is its SELECT. A table of SQL has the
	// text that made it, if the server keeps one.
	View bool
	SQL  string
	// Hidden says which descriptions the user may not read. If there are any, every field
	// counts as touched.
	Hidden []string

	touched  map[int]string // by field; what is behind the format too
	everyone string         // what touches all fields
}

// Field is one of the fields that a space's format names.
type Field struct {
	Number      int // from 0
	Name        string
	Type        string // string, varbinary, scalar, any, map, array, unsigned…
	Nullable    bool
	Compression string // zstd, lz4 or zlib where the format says so, as in the Enterprise edition
}

// Index is one index of a space.
type Index struct {
	ID     uint32
	Name   string
	Type   string // tree, hash, rtree, bitset
	Unique bool
	Func   bool // its keys are computed by a function
	Parts  []Part
}

// Part is one part of an index's key.
type Part struct {
	Field     int // from 0
	Type      string
	Path      string // within the field, "" for all of it
	Collation bool
	Nullable  bool
}

// Lost reports that the connection that it was read on has ended, as it does when the server is
// started anew.
func (s *Schema) Lost() bool { return s != nil && s.live != nil && s.live.c.ClosedNow() }

// Spaces are all spaces by number, those of the system too.
func (s *Schema) Spaces() []*Space { return s.spaces }

// Space finds a space by its number, nil if there is none or the user may not see it.
func (s *Schema) Space(id uint32) *Space {
	i, found := slices.BinarySearchFunc(s.spaces, id, func(s *Space, id uint32) int { return int(int64(s.ID) - int64(id)) })
	if !found {
		return nil
	}
	return s.spaces[i]
}

// SpaceByName finds a space by its name, nil if there is none or the user may not see it.
func (s *Schema) SpaceByName(name string) *Space { return s.byName[name] }

// System reports that the space is one of the server's own.
func (s *Space) System() bool { return s.ID <= lastSystemSpace }

// FieldNumber finds a field by its name.
func (s *Space) FieldNumber(name string) (int, bool) {
	i := slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == name })
	return i, i >= 0
}

// FieldAt is a field by its number, from 0. Behind the format fields have no name and any type.
func (s *Space) FieldAt(n int) Field {
	if n < len(s.Fields) {
		return s.Fields[n]
	}
	return Field{Number: n, Type: anyType, Nullable: true}
}

// FieldName is what a field is called: its name, or its number from 1.
func (s *Space) FieldName(n int) string {
	if n < len(s.Fields) && s.Fields[n].Name != "" {
		return s.Fields[n].Name
	}
	return fmt.Sprint(n + 1)
}

// Primary is the primary index, nil when there is none (then there are no tuples either).
func (s *Space) Primary() *Index {
	if len(s.Indexes) == 0 || s.Indexes[0].ID != 0 {
		return nil
	}
	return &s.Indexes[0]
}

// at is an element, nil behind the end.
func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func mapOf(v any) map[any]any {
	m, _ := v.(map[any]any)
	return m
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case uint64:
		return int64(n), n < 1<<63
	}
	return 0, false
}
