package schema

import (
	"fmt"
	"slices"
	"strconv"
)

// LastSystemSpace is the highest number of a system space.
const LastSystemSpace = 511

// Names of the objects that 'cinch tarantool init' installs in a server and that gateways use.
const (
	// DictSpace is the space that holds dictionaries: [number, sha256, content, state, created].
	DictSpace = "cinch_dictionaries"
	// UpdateFunction is the stored function that replaces fields of a tuple if they are unchanged.
	UpdateFunction = "cinch_update"
)

const anyType = "any"

// Schema describes a server's spaces at one schema version. It is immutable.
type Schema struct {
	// Version is the schema version at which all of it was read. It is valid only on connections to the same
	// server process, since a restarted server counts from the beginning.
	Version uint64
	Server  Version
	lost    func() bool // see Lost; nil: never
	spaces  []*Space    // sorted by number
	byName  map[string]*Space
}

// Space is one space, or a view over others.
type Space struct {
	ID         uint32
	Name       string
	Engine     string // memtx, vinyl, sysview…
	FieldCount int    // number of fields in each tuple; 0: any
	Fields     []Field
	Indexes    []Index // sorted by number; 0, if there is one, is the primary index

	// View means that it is an SQL view, whose SELECT is in SQL. For an SQL table SQL is its CREATE
	// statement, if the server keeps it.
	View bool
	SQL  string
	// Hidden lists the system spaces with constraints that the user may not read. If there are any, Constraint
	// assumes a constraint for every field.
	Hidden []string

	fieldConstraints map[int]string // see Constraint; by field, including fields beyond the format
	spaceConstraint  string         // the same for all fields; "": none
}

// Field is a field in a space's format.
type Field struct {
	Number      int // from 0
	Name        string
	Type        string // string, varbinary, scalar, any, map, array, unsigned…
	Nullable    bool
	Compression string // zstd, lz4 or zlib if the format requests it, as in the Enterprise edition; "": none
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
	Path      string // within the field, "" for the whole field
	Collation bool
	Nullable  bool
}

// Lost reports whether the connection on which the schema was read has ended, for example because the server was
// restarted.
func (s *Schema) Lost() bool { return s != nil && s.lost != nil && s.lost() }

// Spaces returns all spaces by number, system spaces included.
func (s *Schema) Spaces() []*Space { return s.spaces }

// Space returns the space with a number; nil if there is none or the user may not see it.
func (s *Schema) Space(id uint32) *Space {
	i, found := s.search(id)
	if !found {
		return nil
	}
	return s.spaces[i]
}

// search returns the index of a space in the list of spaces, or the index at which to insert it.
func (s *Schema) search(id uint32) (int, bool) {
	return slices.BinarySearchFunc(s.spaces, id, func(s *Space, id uint32) int { return int(int64(s.ID) - int64(id)) })
}

// SpaceByName returns the space with a name; nil if there is none or the user may not see it.
func (s *Schema) SpaceByName(name string) *Space { return s.byName[name] }

// System reports whether the space is a system space.
func (s *Space) System() bool { return s.ID <= LastSystemSpace }

// FieldNumber returns the number, from 0, of the field with a name, and whether there is one.
func (s *Space) FieldNumber(name string) (int, bool) {
	i := slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == name })
	return i, i >= 0
}

// RuleAddress returns the names and numbers by which rules may name the space and a field of it, and the compression
// that the format requests. It returns nothing if the field can't hold strings or binaries.
func (s *Space) RuleAddress(f Field) (keys, fields [][]byte, compression string) {
	if !f.HoldsStrings() {
		return nil, nil, ""
	}
	keys = [][]byte{[]byte(s.Name), []byte(strconv.Itoa(int(s.ID)))}
	fields = [][]byte{[]byte(strconv.Itoa(f.Number + 1))}
	if f.Name != "" {
		fields = append(fields, []byte(f.Name))
	}
	return keys, fields, f.Compression
}

// HoldsStrings reports whether a field can hold strings or binaries.
func (f Field) HoldsStrings() bool {
	switch f.Type {
	case "string", "varbinary", "scalar", anyType, "":
		return true
	}
	return false
}

// FieldAt returns a field by its number, from 0. Fields beyond the format have no name and any type.
func (s *Space) FieldAt(n int) Field {
	if n < len(s.Fields) {
		return s.Fields[n]
	}
	return Field{Number: n, Type: anyType, Nullable: true}
}

// FieldName returns a field's name, or its number from 1 if it has none.
func (s *Space) FieldName(n int) string {
	if n < len(s.Fields) && s.Fields[n].Name != "" {
		return s.Fields[n].Name
	}
	return fmt.Sprint(n + 1)
}

// Primary returns the primary index; nil if there is none, in which case there are no tuples either.
func (s *Space) Primary() *Index {
	if len(s.Indexes) == 0 || s.Indexes[0].ID != 0 {
		return nil
	}
	return &s.Indexes[0]
}
