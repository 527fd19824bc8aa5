package schema

import (
	"fmt"
	"strings"
)

// Constraint describes, for error messages and logs, an index or constraint for which the server reads the value of a
// field (counted from 0), so that the field must not hold envelopes. It returns "" if there is none. Triggers and
// stored functions written in Lua are not visible to clients, so they are not considered.
func (s *Space) Constraint(field int) string { return s.ConstraintFor(field, false) }

// ConstraintFor is like Constraint. If trusted is set, the operator has declared that no constraint hidden from the
// user reads the field.
func (s *Space) ConstraintFor(field int, trusted bool) string {
	switch {
	case s.System():
		return "the space is the server's own"
	case s.Name == DictSpace:
		return "the space holds dictionaries"
	case s.View:
		return "the space is a view"
	case s.spaceConstraint != "":
		return s.spaceConstraint
	case s.fieldConstraints[field] != "":
		return s.fieldConstraints[field]
	case len(s.Hidden) > 0 && !trusted:
		return fmt.Sprintf("the user may not read %s, which lists the constraints: run 'cinch tarantool init', which grants that to every user, or box.schema.user.grant(…, 'read', 'space', '%s'); if no constraint reads the field, set unconstrained: true in the rule", strings.Join(s.Hidden, " and "), s.Hidden[0])
	}
	return ""
}

// KnownConstraint is like Constraint, but ignores that there may be more constraints in the system spaces of Hidden,
// which the user may not read.
func (s *Space) KnownConstraint(field int) string { return s.ConstraintFor(field, true) }

func (s *Space) constrain(field int, format string, args ...any) {
	if s.fieldConstraints[field] == "" {
		s.fieldConstraints[field] = fmt.Sprintf(format, args...)
	}
}

func (s *Space) constrainAll(format string, args ...any) {
	if s.spaceConstraint == "" {
		s.spaceConstraint = fmt.Sprintf(format, args...)
	}
}

// noteFormat records the constraints in the description m of a field.
func (s *Space) noteFormat(f *Field, m map[any]any) {
	collation, _ := integer(m["collation"])
	switch {
	case m["collation"] != nil && collation != collationNone && collation != collationBinary:
		s.constrain(f.Number, "the field has a collation, by which the server compares it")
	case m["constraint"] != nil:
		s.constrain(f.Number, "the field has a constraint")
	case m["foreign_key"] != nil:
		s.constrain(f.Number, "the field is a foreign key")
	}
}

// Collations that compare bytes.
const (
	collationNone   = 0
	collationBinary = 3
)

// noteOptions records the constraints and foreign keys in the options of a space, which newer servers have there.
func (s *Space) noteOptions(options map[any]any) {
	if options["constraint"] != nil {
		s.constrainAll("the space has a constraint, whose function may read any field")
	}
	for name, key := range mapOf(options["foreign_key"]) {
		for local := range mapOf(mapOf(key)["field"]) {
			if n, ok := integer(local); ok {
				s.constrain(int(n), "foreign key %v uses the field", name)
			} else if i, ok := s.FieldNumber(fmt.Sprint(local)); ok {
				s.constrain(i, "foreign key %v uses the field", name)
			}
		}
	}
}

// noteIndex records the fields of an index; all fields if the index has a function, which gets the whole tuple.
func (s *Space) noteIndex(x *Index, known bool) {
	switch {
	case x.Func:
		s.constrainAll("index %q is computed by a function, which may read any field", x.Name)
		return // its parts are positions in the function's result
	case !known:
		s.constrainAll("index %q has a definition that this version of Cinch doesn't know", x.Name)
		return
	}
	for _, p := range x.Parts {
		if p.Path != "" {
			s.constrain(p.Field, "index %q has a part of the field, at path %q", x.Name, p.Path)
		} else {
			s.constrain(p.Field, "index %q has the field", x.Name)
		}
	}
}

// Mentions reports whether SQL code may contain a name as a separate word, in any case, quoted or not. If in doubt it
// returns true, for example for a word within a literal.
func Mentions(code, name string) bool {
	code, name = strings.ToLower(code), strings.ToLower(name)
	for _, n := range []string{name, strings.ReplaceAll(name, `"`, `""`)} {
		for from := 0; n != "" && from <= len(code)-len(n); from++ {
			i := strings.Index(code[from:], n)
			if i < 0 {
				break
			}
			if from += i; !wordByte(code, from-1) && !wordByte(code, from+len(n)) {
				return true
			}
		}
	}
	return false
}

func wordByte(s string, i int) bool {
	if i < 0 || i >= len(s) {
		return false
	}
	c := s[i]
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}
