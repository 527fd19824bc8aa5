package schema

import (
	"fmt"
	"slices"
)

const compressionOption = "compression"

// Builder builds a Schema from tuples of the system spaces. All spaces must be added before indexes and constraints.
type Builder struct {
	schema *Schema
	hidden []string
}

// NewBuilder returns a Builder for a server of that version. lost reports whether the connection on which the
// tuples are read has ended; see Schema.Lost.
func NewBuilder(server Version, lost func() bool) *Builder {
	return &Builder{schema: &Schema{Server: server, lost: lost, byName: make(map[string]*Space)}}
}

// Hide records that the user may not read a system space with constraints, given by its name.
func (b *Builder) Hide(name string) { b.hidden = append(b.hidden, name) }

// Spaces returns the spaces that were added, by number.
func (b *Builder) Spaces() []*Space { return b.schema.spaces }

// Schema returns the schema of all that was added. Nothing may be added afterwards.
func (b *Builder) Schema() *Schema {
	for _, s := range b.schema.spaces {
		s.Hidden = b.hidden
		slices.SortFunc(s.Indexes, func(a, b Index) int { return int(a.ID) - int(b.ID) })
	}
	return b.schema
}

// AddSpace adds a tuple of _vspace: [id, owner, name, engine, field_count, {options}, [format]].
func (b *Builder) AddSpace(t Tuple) error {
	id, ok := t.Int(0)
	name, ok2 := t.At(2).(string)
	if !ok || !ok2 || id < 0 {
		return fmt.Errorf("unknown definition of a space %v", t)
	}
	s := &Space{ID: uint32(id), Name: name, fieldConstraints: make(map[int]string)}
	s.Engine, _ = t.At(3).(string)
	count, _ := t.Int(4)
	s.FieldCount = int(count)
	options := mapOf(t.At(5))
	s.View, _ = options["view"].(bool)
	s.SQL, _ = options["sql"].(string)
	format, _ := t.At(6).([]any)
	for i, f := range format {
		s.Fields = append(s.Fields, s.field(i, f))
	}
	s.noteOptions(options)
	i, _ := b.schema.search(s.ID)
	b.schema.spaces = slices.Insert(b.schema.spaces, i, s)
	b.schema.byName[name] = s
	return nil
}

func (s *Space) field(number int, description any) Field {
	m := mapOf(description)
	f := Field{Number: number, Type: anyType}
	f.Name, _ = m["name"].(string)
	if kind, ok := m["type"].(string); ok {
		f.Type = fullType(kind)
	}
	f.Nullable, _ = m["is_nullable"].(bool)
	f.Compression, _ = m[compressionOption].(string)
	s.noteFormat(&f, m)
	return f
}

// fullType replaces the short names that old formats use.
func fullType(kind string) string {
	switch kind {
	case "*":
		return anyType
	case "str":
		return "string"
	case "num", "uint":
		return "unsigned"
	case "int":
		return "integer"
	}
	return kind
}

// AddIndex adds a tuple of _vindex: [space, id, name, type, {options}, [parts]].
func (b *Builder) AddIndex(t Tuple) error {
	space, ok := t.Int(0)
	id, ok2 := t.Int(1)
	if !ok || !ok2 || space < 0 {
		return fmt.Errorf("unknown definition of an index %v", t)
	}
	s := b.schema.Space(uint32(space))
	if s == nil {
		return nil // the space was created since the spaces were read, so the schema version will differ
	}
	x := Index{ID: uint32(id)}
	x.Name, _ = t.At(2).(string)
	x.Type, _ = t.At(3).(string)
	options := mapOf(t.At(4))
	x.Unique, _ = options["unique"].(bool)
	parts, known := t.At(5).([]any)
	for _, p := range parts {
		part, ok := partOf(p)
		known = known && ok
		x.Parts = append(x.Parts, part)
	}
	function, _ := integer(options["func"])
	x.Func = options["func"] != nil && function != 0
	s.Indexes = append(s.Indexes, x)
	s.noteIndex(&x, known)
	return nil
}

// partOf reads [field, type, …] or {field, type, path, collation, is_nullable}.
func partOf(description any) (Part, bool) {
	if list, ok := description.([]any); ok {
		field, ok := Tuple(list).Int(0)
		kind, _ := Tuple(list).At(1).(string)
		return Part{Field: int(field), Type: fullType(kind)}, ok && field >= 0
	}
	m := mapOf(description)
	field, ok := integer(m["field"])
	p := Part{Field: int(field), Collation: m["collation"] != nil}
	kind, _ := m["type"].(string)
	p.Type = fullType(kind)
	p.Path, _ = m["path"].(string)
	p.Nullable, _ = m["is_nullable"].(bool)
	return p, ok && field >= 0
}

// AddForeignKey adds a tuple of _fk_constraint: [name, child, parent, deferred, match, on delete, on update,
// [child fields], [parent fields]].
func (b *Builder) AddForeignKey(t Tuple) error {
	for _, side := range []struct{ space, fields int }{{1, 7}, {2, 8}} {
		id, _ := t.Int(side.space)
		s := b.schema.Space(uint32(id))
		if s == nil {
			continue // the space was created since the spaces were read, or is not visible
		}
		fields, ok := t.At(side.fields).([]any)
		if !ok {
			s.constrainAll("foreign key %v has a definition that this version of Cinch doesn't know", t.At(0))
		}
		for _, f := range fields {
			n, _ := integer(f)
			s.constrain(int(n), "foreign key %v uses the field", t.At(0))
		}
	}
	return nil
}

// AddReference adds a row of SQL's PRAGMA foreign_key_list about the space: id, seq, parent's table, column, parent's
// column, ….
func (s *Space) AddReference(row Tuple) {
	name, ok := row.At(3).(string)
	n, known := s.FieldNumber(name)
	if !ok || !known {
		s.constrainAll("a foreign key has a definition that this version of Cinch doesn't know")
		return
	}
	s.constrain(n, "a foreign key to %v uses the field", row.At(2))
}

// AddCheck adds a tuple of _ck_constraint: [space, name, deferred, language, expression, enabled].
func (b *Builder) AddCheck(t Tuple) error {
	id, _ := t.Int(0)
	s := b.schema.Space(uint32(id))
	if s == nil {
		return nil
	}
	code, ok := t.At(4).(string)
	if !ok {
		s.constrainAll("check constraint %v has a definition that this version of Cinch doesn't know", t.At(1))
	}
	for _, f := range s.Fields {
		if Mentions(code, f.Name) {
			s.constrain(f.Number, "check constraint %v reads the field", t.At(1))
		}
	}
	return nil
}
