package tarantool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/policy"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// spaces say what happens to which field of which space: rules and schema at one version. They do
// not change.
type spaces struct {
	version   uint64
	schema    *store.Schema
	off       bool // nothing is sealed; what may be is still guarded
	prepared  bool // 'cinch tarantool init' was run, as far as the gateway's user can see
	byID      map[uint32]*space
	byName    map[string]*space
	guarded   []string       // names of spaces with rules, and of views over them
	unseen    []string       // of spaces that rules name and the gateway's user may not see, or that aren't there
	arguments []*policy.Rule // for stored functions, those that are in force
	calls     []*policy.Rule // for stored functions, also while compression is off; nil: functions store no envelopes
	sealing   int            // fields that are sealed
}

// space is one of them. Those of the server's own are none.
type space struct {
	*store.Space
	fields []field // as far as rules go
	ruled  bool    // some field may hold envelopes
	blind  bool    // nothing is sealed there, but only because the gateway's user can't see what touches fields
}

// field says what happens to one field.
type field struct {
	rules   []*policy.Rule // in order, whatever their sizes; nil: it is never sealed
	touched string         // why the rules don't count
	guarded bool           // it may hold envelopes
}

// furthest is how many fields get rules in a space whose format names fewer.
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

// withoutSchema returns what is known without a schema: the rules for arguments of stored functions. What they
// compressed before they were switched off may be stored anywhere.
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

// assigner makes spaces.
type assigner struct {
	all        *spaces
	rules      *policy.Policy
	used       []*policy.Rule // rules that cover something
	hidden     int            // fields that would be sealed if the user saw that nothing touches them
	why        string         // of one
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

// field decides about a field by its name, or its number as Lua counts.
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
	// When it can't be known what touches a field it may have been sealed while that was known.
	return field{rules: found, touched: touched, guarded: touched == "" || len(s.Hidden) > 0}
}

// named reports whether a pattern stands for itself alone.
func named(pattern string) bool { return pattern != "" && !strings.ContainsAny(pattern, `*?[\`) }

func (b *assigner) complain(format string, args ...any) {
	b.complaints = append(b.complaints, fmt.Sprintf(format, args...))
}

// complainAboutNothing names the rules that cover no field.
func (b *assigner) complainAboutNothing() {
	if b.rules == nil || b.rules.Force {
		return
	}
	for _, r := range b.rules.Rules() {
		if r.Types&policy.Tuple != 0 && (named(r.Key) || named(r.Field)) && !slices.Contains(b.used, r) {
			b.complain("rule %s finds no field %s of a space %s that can hold strings and that the gateway's user may see", r.Name, orAny(r.Field), orAny(r.Key))
		}
	}
}

func orAny(pattern string) string {
	if pattern == "" {
		return "*"
	}
	return pattern
}

// findUnseen lists the spaces that rules name and that are not in the schema. What they hold may have
// been sealed when they could be seen.
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

// guard lists the names by which SQL reaches spaces with rules: their own and those of views
// over them, and of views over those.
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

// mentions reports whether a text of SQL may name a guarded space.
func (all *spaces) mentions(code string) bool {
	return slices.ContainsFunc(all.guarded, func(name string) bool { return store.Mentions(code, name) })
}

// blindTo reports that a request is to a space that is not among these though rules may name it, or functions
// may store envelopes there.
func (all *spaces) blindTo(id uint32, name []byte) bool {
	if len(all.unseen) == 0 && all.calls == nil {
		return false
	}
	if name != nil {
		return all.schema.SpaceByName(string(name)) == nil
	}
	return all.schema.Space(id) == nil
}

// whyBlind says why a space that is not among these may hold envelopes.
func (all *spaces) whyBlind() string {
	if len(all.unseen) > 0 {
		return fmt.Sprintf("rules name one (%s)", all.unseen[0])
	}
	return "functions may store compressed arguments there"
}

// mayHold reports whether a field may hold envelopes by the rules for spaces.
func (all *spaces) mayHold(f *field) bool { return f.guarded || all.prepared && len(f.rules) > 0 }

// holdsNothing reports that no rule has put envelopes anywhere.
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

// touchedAt says what computes on a field, as far as its rules don't vouch for it.
func (s *space) touchedAt(n int) string {
	if f := s.at(n); f.rules != nil {
		return f.touched
	}
	return s.TouchedAt(n)
}

// at is the field at a position from 0.
func (s *space) at(n int) *field {
	if n < 0 || n >= len(s.fields) {
		return &noField
	}
	return &s.fields[n]
}

var noField field

// rule is the one for a value of n bytes, nil when it is to be left alone.
func (f *field) rule(n int) *policy.Rule {
	if f.touched != "" {
		return nil
	}
	return store.First(f.rules, n)
}
