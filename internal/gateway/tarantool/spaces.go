package tarantool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// spaces combines rules and schema at one version: it holds how to treat each field of each space. It is immutable.
type spaces struct {
	version          uint64
	schema           *schema.Schema
	disabled         bool // nothing is compressed; fields that may hold compressed values are still guarded
	initialized      bool // 'cinch tarantool init' was run, as far as the gateway's user can see
	byID             map[uint32]*space
	byName           map[string]*space
	guarded          []string       // names of spaces with rules, and of views over them
	missing          []string       // spaces in rules that don't exist, or that the gateway's user may not see
	activeCallRules  []*policy.Rule // rules for arguments of stored functions; nil while compression is off
	callRules        []*policy.Rule // the same rules, also while compression is off; nil: functions store no envelopes
	compressedFields int            // number of fields that are compressed
}

// space is a space with the treatment of its fields. There is none for system spaces.
type space struct {
	*schema.Space
	fields        []field // up to the last field with rules
	ruled         bool    // some field may hold envelopes
	touchesHidden bool    // no field is compressed since the user can't see all constraints; see storesPlain
}

// field holds the treatment of one field.
type field struct {
	rules   []*policy.Rule // in order, for all sizes of values; nil: it is never compressed
	touched string         // the constraint because of which the rules are not applied; "": they are applied
	guarded bool           // it may hold envelopes
}

// maxRuledFields is the number of fields to which rules may apply in a space whose format has fewer fields.
const maxRuledFields = 64

func newSpaces(rules *policy.Policy, read *schema.Schema) (*spaces, []string) {
	all := withoutSchema(rules)
	all.version, all.schema, all.byID, all.byName = read.Version, read, map[uint32]*space{}, map[string]*space{}
	all.initialized = read.SpaceByName(schema.DictSpace) != nil
	b := spacesBuilder{spaces: all, rules: rules}
	for _, s := range read.Spaces() {
		if !s.System() {
			b.add(s)
		}
	}
	b.findMissing(read)
	b.findGuarded()
	b.warnUnused()
	if b.hidden > 0 {
		b.warn("%d fields that rules cover: %s", b.hidden, b.why)
	}
	return all, b.warnings
}

// withoutSchema returns spaces with the rules for arguments of stored functions, which need no schema. Rules that are
// switched off are included in callRules, since arguments that they compressed before may be stored anywhere.
func withoutSchema(rules *policy.Policy) *spaces {
	all := &spaces{disabled: rules == nil || rules.Off}
	if rules == nil {
		return all
	}
	for _, r := range rules.Rules() {
		if r.Types&policy.Argument != 0 && r.Field != "" {
			all.callRules = append(all.callRules, r)
		}
	}
	if !all.disabled {
		all.activeCallRules = all.callRules
	}
	return all
}

// spacesBuilder builds spaces from rules and schema.
type spacesBuilder struct {
	spaces   *spaces
	rules    *policy.Policy
	used     []*policy.Rule // rules that cover a field
	hidden   int            // fields left uncompressed only because the user can't see the constraints on them
	why      string         // the text about that for one of them
	warnings []string
}

func (b *spacesBuilder) add(s *schema.Space) {
	sp := &space{Space: s}
	b.spaces.byID[s.ID], b.spaces.byName[s.Name] = sp, sp
	if s.View || s.Name == schema.DictSpace {
		return
	}
	count, sealed := len(s.Fields), false
	if s.FieldCount == 0 {
		count = max(count, maxRuledFields)
	}
	for n := range count {
		f := b.field(s, n)
		sp.fields = append(sp.fields, f)
		sp.ruled = sp.ruled || f.guarded
		sealed = sealed || f.rules != nil && f.touched == ""
	}
	sp.touchesHidden = sp.ruled && !sealed
	for len(sp.fields) > 0 && sp.fields[len(sp.fields)-1].rules == nil {
		sp.fields = sp.fields[:len(sp.fields)-1]
	}
}

// field returns the treatment of the field at position n, counted from 0. Rules may refer to it by its name, or by its
// number, counted from 1 as in Lua.
func (b *spacesBuilder) field(s *schema.Space, n int) field {
	f := s.FieldAt(n)
	found := b.rules.CoveringTuple(s.RuleAddress(f))
	if len(found) == 0 {
		return field{}
	}
	b.used = append(b.used, found...)
	touched := s.ConstraintFor(n, policy.Unconstrained(found))
	if touched == "" {
		b.spaces.compressedFields++
	} else if s.KnownConstraint(n) == "" && !found[0].Raw() {
		b.hidden++
		b.why = touched
	}
	if touched == "" {
		return field{rules: found, guarded: true}
	}
	if r := found[0]; !r.Raw() && isLiteral(r.Field) {
		name := f.Name
		if name == "" {
			name = "number " + strconv.Itoa(n+1)
		}
		b.warn("rule %s names field %s of space %s: %s", r.Name, name, s.Name, touched)
	}
	// If the user may not see the constraints, the field may have been compressed when they could be seen.
	return field{rules: found, touched: touched, guarded: len(s.Hidden) > 0}
}

// isLiteral reports whether a pattern matches a single name only.
func isLiteral(pattern string) bool { return pattern != "" && !strings.ContainsAny(pattern, `*?[\`) }

func (b *spacesBuilder) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// warnUnused adds a warning for each rule that names a space or field literally and covers no field.
func (b *spacesBuilder) warnUnused() {
	if b.rules == nil || b.rules.Force {
		return
	}
	for _, r := range b.rules.Rules() {
		if r.Types&policy.Tuple != 0 && (isLiteral(r.Key) || isLiteral(r.Field)) && !slices.Contains(b.used, r) {
			b.warn("rule %s matches no field %s of a space %s that can hold strings and that the gateway's user may read", r.Name, orAny(r.Field), orAny(r.Key))
		}
	}
}

func orAny(pattern string) string {
	if pattern == "" {
		return "*"
	}
	return pattern
}

// findMissing lists the spaces that rules name and that are not in the schema. Their values may have been
// compressed when the gateway's user could see them.
func (b *spacesBuilder) findMissing(read *schema.Schema) {
	if b.rules == nil || b.rules.Force {
		return
	}
	for _, r := range b.rules.Rules() {
		id, err := strconv.ParseUint(r.Key, 10, 32)
		seen := read.SpaceByName(r.Key) != nil || err == nil && read.Space(uint32(id)) != nil
		if r.Types&policy.Tuple != 0 && isLiteral(r.Key) && !seen {
			b.spaces.missing = append(b.spaces.missing, r.Key)
		}
	}
}

// findGuarded lists the names by which SQL statements may use spaces with rules: the names of these spaces, of views
// over them, and of views over such views.
func (b *spacesBuilder) findGuarded() {
	b.spaces.guarded = slices.Clone(b.spaces.missing)
	var views []*space
	for _, s := range b.spaces.byID {
		switch {
		case s.ruled:
			b.spaces.guarded = append(b.spaces.guarded, s.Name)
		case s.View:
			views = append(views, s)
		}
	}
	for range views {
		for _, v := range views {
			if !slices.Contains(b.spaces.guarded, v.Name) && b.spaces.mentions(v.SQL) {
				b.spaces.guarded = append(b.spaces.guarded, v.Name)
			}
		}
	}
}

// mentions reports whether an SQL text may name a guarded space.
func (all *spaces) mentions(code string) bool {
	return slices.ContainsFunc(all.guarded, func(name string) bool { return schema.Mentions(code, name) })
}

// isHidden reports whether a space, given by its name or else by its id, is not in the schema and may hold envelopes:
// because rules name spaces that are not in the schema, or because functions may store envelopes in any space.
func (all *spaces) isHidden(id uint32, name []byte) bool {
	if len(all.missing) == 0 && all.callRules == nil {
		return false
	}
	if name != nil {
		return all.schema.SpaceByName(string(name)) == nil
	}
	return all.schema.Space(id) == nil
}

// hiddenReason returns why a space that is not in the schema may hold envelopes.
func (all *spaces) hiddenReason() string {
	if len(all.missing) > 0 {
		return fmt.Sprintf("rules name such a space (%s)", all.missing[0])
	}
	return "functions may store compressed arguments there"
}

// mayHoldEnvelope reports whether a field may hold envelopes because of rules for spaces.
func (all *spaces) mayHoldEnvelope(f *field) bool {
	return f.guarded || all.initialized && len(f.rules) > 0
}

// hasNoEnvelopes reports whether no space can hold envelopes because of the rules.
func (all *spaces) hasNoEnvelopes() bool {
	if all.callRules != nil || len(all.guarded) > 0 {
		return false
	}
	for _, s := range all.byID {
		if all.initialized && len(s.fields) > 0 {
			return false
		}
	}
	return true
}

// touchedAt returns the constraint on the field at a position, or "". Rules can declare that there is none.
func (s *space) touchedAt(n int) string {
	if f := s.at(n); f.rules != nil {
		return f.touched
	}
	return s.Constraint(n)
}

// at returns the field at a position, counted from 0.
func (s *space) at(n int) *field {
	if n < 0 || n >= len(s.fields) {
		return &noField
	}
	return &s.fields[n]
}

var noField field

// rule returns the rule for a value of n bytes, or nil if the value must not be compressed.
func (f *field) rule(n int) *policy.Rule {
	if f.touched != "" {
		return nil
	}
	return policy.RuleFor(f.rules, n)
}
