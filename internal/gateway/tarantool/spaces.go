package tarantool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/policy"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// spaces holds the treatment of each field of each space: rules and schema at one version. It is immutable.
type spaces struct {
	version   uint64
	schema    *store.Schema
	off       bool // nothing is compressed; fields that may hold compressed values are still guarded
	prepared  bool // 'cinch tarantool init' was run, as far as the gateway's user can see
	byID      map[uint32]*space
	byName    map[string]*space
	guarded   []string       // names of spaces with rules, and of views over them
	unseen    []string       // spaces in rules that don't exist, or that the gateway's user may not see
	arguments []*policy.Rule // rules for stored functions; nil while compression is off
	calls     []*policy.Rule // arguments, also while compression is off; nil: functions store no envelopes
	sealing   int            // number of fields that are compressed
}

// space is a space with the treatment of its fields. Spaces of the server itself have none.
type space struct {
	*store.Space
	fields []field // up to the last field with rules
	ruled  bool    // some field may hold envelopes
	blind  bool    // no field is compressed, and the user can't see all that touches fields
}

// field holds the treatment of one field.
type field struct {
	rules   []*policy.Rule // in order, for all sizes of values; nil: it is never compressed
	touched string         // why the rules are not applied; "": they are
	guarded bool           // it may hold envelopes
}

// furthest is the number of fields that can have rules in a space whose format names fewer.
const furthest = 64

func newSpaces(rules *policy.Policy, schema *store.Schema) (*spaces, []string) {
	all := withoutSchema(rules)
	all.version, all.schema, all.byID, all.byName = schema.Version, schema, map[uint32]*space{}, map[string]*space{}
	all.prepared = schema.SpaceByName(store.DictSpace) != nil
	b := assigner{all: all, rules: rules}
	for _, s := range schema.Spaces() {
		if !s.System() {
			b.add(s)
		}
	}
	b.findUnseen(schema)
	b.guard()
	b.complainAboutNothing()
	if b.hidden > 0 {
		b.complain("%d fields that rules cover: %s", b.hidden, b.why)
	}
	return all, b.complaints
}

// withoutSchema returns what is known without a schema: the rules for arguments of stored functions.
// Arguments that they compressed before they were switched off may be stored anywhere.
func withoutSchema(rules *policy.Policy) *spaces {
	all := &spaces{off: rules == nil || rules.Off}
	if rules == nil {
		return all
	}
	for _, r := range rules.Rules() {
		if r.Types&policy.Argument != 0 && r.Field != "" {
			all.calls = append(all.calls, r)
		}
	}
	if !all.off {
		all.arguments = all.calls
	}
	return all
}

// assigner builds spaces from rules and schema.
type assigner struct {
	all        *spaces
	rules      *policy.Policy
	used       []*policy.Rule // rules that cover something
	hidden     int            // fields left uncompressed only because the user can't see what touches them
	why        string         // what is hidden about one of them
	complaints []string
}

func (b *assigner) add(s *store.Space) {
	sp := &space{Space: s}
	b.all.byID[s.ID], b.all.byName[s.Name] = sp, sp
	if s.View || s.Name == store.DictSpace {
		return
	}
	count, sealed := len(s.Fields), false
	if s.FieldCount == 0 {
		count = max(count, furthest)
	}
	for n := range count {
		f := b.field(s, n)
		sp.fields = append(sp.fields, f)
		sp.ruled = sp.ruled || f.guarded
		sealed = sealed || f.rules != nil && f.touched == ""
	}
	sp.blind = sp.ruled && !sealed
	for len(sp.fields) > 0 && sp.fields[len(sp.fields)-1].rules == nil {
		sp.fields = sp.fields[:len(sp.fields)-1]
	}
}

// field returns the treatment of the field at position n, counted from 0. Rules may name it by its name, or
// by its number as Lua counts.
func (b *assigner) field(s *store.Space, n int) field {
	f := s.FieldAt(n)
	found := s.Rules(b.rules, f)
	if len(found) == 0 {
		return field{}
	}
	b.used = append(b.used, found...)
	touched := s.Touched(n, store.Trusted(found))
	if touched == "" {
		b.all.sealing++
	} else if s.KnownTouchAt(n) == "" && !found[0].Raw() {
		b.hidden++
		b.why = touched
	}
	if touched == "" {
		return field{rules: found, guarded: true}
	}
	if r := found[0]; !r.Raw() && named(r.Field) {
		name := f.Name
		if name == "" {
			name = "number " + strconv.Itoa(n+1)
		}
		b.complain("rule %s names field %s of space %s: %s", r.Name, name, s.Name, touched)
	}
	// If it is unknown what touches the field, it may have been compressed when that was known.
	return field{rules: found, touched: touched, guarded: len(s.Hidden) > 0}
}

// named reports whether a pattern matches a single name only.
func named(pattern string) bool { return pattern != "" && !strings.ContainsAny(pattern, `*?[\`) }

func (b *assigner) complain(format string, args ...any) {
	b.complaints = append(b.complaints, fmt.Sprintf(format, args...))
}

// complainAboutNothing adds a warning for each rule that covers no field.
func (b *assigner) complainAboutNothing() {
	if b.rules == nil || b.rules.Force {
		return
	}
	for _, r := range b.rules.Rules() {
		if r.Types&policy.Tuple != 0 && (named(r.Key) || named(r.Field)) && !slices.Contains(b.used, r) {
			b.complain("rule %s matches no field %s of a space %s that can hold strings and that the gateway's user may read", r.Name, orAny(r.Field), orAny(r.Key))
		}
	}
}

func orAny(pattern string) string {
	if pattern == "" {
		return "*"
	}
	return pattern
}

// findUnseen lists the spaces that rules name and that are not in the schema. Their values may have been
// compressed when the gateway's user could see them.
func (b *assigner) findUnseen(schema *store.Schema) {
	if b.rules == nil || b.rules.Force {
		return
	}
	for _, r := range b.rules.Rules() {
		id, err := strconv.ParseUint(r.Key, 10, 32)
		seen := schema.SpaceByName(r.Key) != nil || err == nil && schema.Space(uint32(id)) != nil
		if r.Types&policy.Tuple != 0 && named(r.Key) && !seen {
			b.all.unseen = append(b.all.unseen, r.Key)
		}
	}
}

// guard lists the names by which SQL reaches spaces with rules: their own names, those of views over them,
// and of views over those.
func (b *assigner) guard() {
	b.all.guarded = slices.Clone(b.all.unseen)
	var views []*space
	for _, s := range b.all.byID {
		switch {
		case s.ruled:
			b.all.guarded = append(b.all.guarded, s.Name)
		case s.View:
			views = append(views, s)
		}
	}
	for range views {
		for _, v := range views {
			if !slices.Contains(b.all.guarded, v.Name) && b.all.mentions(v.SQL) {
				b.all.guarded = append(b.all.guarded, v.Name)
			}
		}
	}
}

// mentions reports whether an SQL text may name a guarded space.
func (all *spaces) mentions(code string) bool {
	return slices.ContainsFunc(all.guarded, func(name string) bool { return store.Mentions(code, name) })
}

// blindTo reports whether a space is not among these though rules may name it, or functions may store
// envelopes there.
func (all *spaces) blindTo(id uint32, name []byte) bool {
	if len(all.unseen) == 0 && all.calls == nil {
		return false
	}
	if name != nil {
		return all.schema.SpaceByName(string(name)) == nil
	}
	return all.schema.Space(id) == nil
}

// whyBlind returns why a space that is not among these may hold envelopes.
func (all *spaces) whyBlind() string {
	if len(all.unseen) > 0 {
		return fmt.Sprintf("rules name such a space (%s)", all.unseen[0])
	}
	return "functions may store compressed arguments there"
}

// mayHold reports whether a field may hold envelopes by the rules for spaces.
func (all *spaces) mayHold(f *field) bool { return f.guarded || all.prepared && len(f.rules) > 0 }

// holdsNothing reports whether no rule can have stored envelopes anywhere.
func (all *spaces) holdsNothing() bool {
	if all.calls != nil || len(all.guarded) > 0 {
		return false
	}
	for _, s := range all.byID {
		if all.prepared && len(s.fields) > 0 {
			return false
		}
	}
	return true
}

// touchedAt returns what computes on a field, or "". Rules can declare that nothing does.
func (s *space) touchedAt(n int) string {
	if f := s.at(n); f.rules != nil {
		return f.touched
	}
	return s.TouchedAt(n)
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
	return store.First(f.rules, n)
}
