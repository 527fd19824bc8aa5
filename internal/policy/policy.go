// Package policy decides what happens to a value: an ordered list of rules
// leads from an address (space, key, field, type, size) to a codec setting.
//
// It is pure: no I/O, no clock, no metrics. A Policy does not change once it
// is built, so that any number of goroutines may ask it; a reload builds a new
// one and swaps the pointer.
package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/foreign"
)

// Defaults that a rule gets for what it leaves out.
const (
	// DefaultMinSize is in bytes. An envelope costs 11 bytes, 19 with a
	// dictionary, and a Redis string below 64 lives in one small allocation: little can be gained.
	DefaultMinSize = 64
	// DefaultMinGain is the share of the server's own allocation that sealing
	// has to free, see [Rule.Worth].
	DefaultMinGain = 0.10
	// AnyGain as a rule's MinGain accepts the smallest saving. (Zero means
	// the default.)
	AnyGain = 1e-12
	// DefaultTypes is what a rule without types covers. Streams are opt-in.
	DefaultTypes = String | Hash
)

// Type is what kind of thing holds a value. Types are bits, so that a rule
// can name several.
type Type uint8

const (
	String Type = 1 << iota
	Hash
	Stream
	Tuple    // Tarantool: a field of a space's tuples
	Argument // Tarantool: an argument of a stored function

	Any = String | Hash | Stream | Tuple | Argument
)

// String returns "string", "hash", "stream", "tuple", "argument", or several joined by "+".
func (t Type) String() string {
	names := ""
	for i, name := range [...]string{"string", "hash", "stream", "tuple", "argument"} {
		if t&(1<<i) == 0 {
			continue
		}
		if names != "" {
			names += "+"
		}
		names += name
	}
	if names == "" {
		return "none"
	}
	return names
}

// Address says where a value lives. Lookup reads it and keeps nothing of it.
type Address struct {
	Space string // Redis: the database number in decimal
	Key   []byte
	Field []byte // nil where there is none
	Type  Type   // exactly one bit
	Size  int    // bytes of the value as the application sent it
}

// Rule leads from a set of addresses to a setting. Everything that is left
// zero means "any", or the default that is named above. The rules of a Policy
// belong to it: callers read them only.
type Rule struct {
	Name    string // label in metrics; default "rule-N", N counts from 1
	Key     string // glob, see Pattern
	Field   string // glob for a hash's or a stream's field; such a rule never covers strings
	Space   string
	Types   Type
	MinSize int     // bytes, inclusive; a value outside goes on to the next rule
	MaxSize int     // bytes, inclusive
	MinGain float64 // 0.10 is 10 %
	Setting codec.Setting
	Auto    bool // the dictionary in Setting is chosen while the policy is in force; see With
	// Unconstrained vouches that no constraint reads the field that the gateway's user may not see (Tarantool).
	Unconstrained bool
	// Observe has values sealed, opened and counted, but none stored that way: see [Rule.Seals].
	Observe bool
	// Shared has the dictionary made of, and for, the values of all logins; otherwise each has its own.
	Shared bool
	// Formats are those in which the clients' library compresses values: of these the content is sealed.
	Formats []foreign.Format
	// ToPlain has clients get the content itself, where they would get it in the library's format again.
	ToPlain bool

	logins     map[string]Choice // see SettingFor; nil: all have Setting
	alone      codec.Setting     // without the dictionary of any login
	key, field Pattern
	forced     bool
}

// SettingFor is the setting for a value that a login writes, "" for the server's default user. It
// does not allocate.
func (r *Rule) SettingFor(login string) codec.Setting {
	if r.logins == nil {
		return r.Setting
	}
	return r.logins[login].of(r.alone)
}

// Raw reports whether the rule says to leave values alone.
func (r *Rule) Raw() bool { return r.Setting.Codec == codec.Raw }

// Seals reports whether values under the rule are stored sealed.
func (r *Rule) Seals() bool { return !r.Raw() && !r.Observe }

// Options describe a policy.
type Options struct {
	Rules   []Rule   // in order, the first match decides
	Exclude []string // globs of keys that never hold envelopes
	Off     bool
	Force   bool
}

// Policy is an immutable list of rules.
type Policy struct {
	// Off seals nothing. Everything that is sealed already still opens.
	Off bool
	// Force is for tests only: every value of every key that is not excluded
	// is sealed, even at a loss; callers still ask NeverSeal.
	Force bool
	// SpecialKeys: keys are excluded, or some rule is to plain. Otherwise what becomes of a value that is read depends on no key.
	SpecialKeys bool

	rules   []Rule
	toPlain bool // of some rule
	exclude []Pattern
	globs   []string // of exclude
	force   []Rule   // the same rules in the same order, forced; then one that covers the rest
}

// ErrRule is wrapped by every error of New.
var ErrRule = errors.New("invalid rule")

// New builds a policy. It copies what it is given.
func New(o Options) (*Policy, error) {
	p := &Policy{Off: o.Off, Force: o.Force, globs: slices.Clone(o.Exclude)}
	for i, r := range o.Rules {
		if err := r.prepare(i); err != nil {
			return nil, fmt.Errorf("%w %d (%q): %w", ErrRule, i+1, r.Name, err)
		}
		p.rules = append(p.rules, r)
		p.toPlain = p.toPlain || r.ToPlain
	}
	for _, x := range o.Exclude {
		p.exclude = append(p.exclude, Compile(x))
	}
	p.SpecialKeys = p.toPlain || len(p.exclude) > 0
	p.force = forcedRules(p.rules)
	return p, nil
}

func (r *Rule) prepare(i int) error {
	if r.Name == "" {
		r.Name = fmt.Sprintf("rule-%d", i+1)
	}
	if r.Types == 0 {
		r.Types = DefaultTypes
	}
	if r.Field != "" {
		r.Types &^= String
	}
	if r.MinSize == 0 && !r.Raw() {
		r.MinSize = DefaultMinSize // "leave alone" covers small values too
	}
	if r.MinGain == 0 {
		r.MinGain = DefaultMinGain
	}
	if err := r.check(); err != nil {
		return err
	}
	r.key, r.field = compileOrAny(r.Key), compileOrAny(r.Field)
	return nil
}

func (r *Rule) check() error {
	switch {
	case r.Types == 0 || r.Types&^Any != 0:
		return fmt.Errorf("covers no type that holds values (a rule with a field covers hashes and streams)")
	case r.MinSize < 0:
		return fmt.Errorf("min size %d is negative", r.MinSize)
	case r.MaxSize < 0:
		return fmt.Errorf("max size %d is negative", r.MaxSize)
	case r.MaxSize != 0 && r.MaxSize < r.MinSize:
		return fmt.Errorf("max size %d is below min size %d", r.MaxSize, r.MinSize)
	case r.Auto && r.Setting.Codec != codec.Zstd:
		return fmt.Errorf("%s takes no dictionary", r.Setting.Codec)
	case r.ToPlain && len(r.Formats) == 0:
		return fmt.Errorf("has no format that could be made plain")
	case r.ToPlain && (r.Field != "" || r.Types&^(String|Hash) != 0):
		return fmt.Errorf("to plain is for strings, and for all fields of hashes")
	case !(r.MinGain > 0 && r.MinGain < 1):
		return fmt.Errorf("min gain %v is not between 0 and 1", r.MinGain)
	}
	return r.Setting.Validate()
}

// forcedRules gives the rules as Force applies them: no sizes, no minimum
// gain, nothing raw, and a last one for whatever no rule covers.
func forcedRules(rules []Rule) []Rule {
	last := Rule{Name: "force", Setting: codec.Setting{Codec: codec.Zstd}}
	forced := make([]Rule, 0, len(rules)+1)
	for _, r := range rules {
		if r.Seals() {
			r.MinSize, r.MaxSize, r.forced = 0, 0, true
			forced = append(forced, r)
		}
	}
	last.Types, last.forced = Any, true
	last.key, last.field = Compile("*"), Compile("*")
	return append(forced, last)
}

// Choice is a dictionary that was chosen for a rule, 0 for none, and the level that goes
// with it. A level that is not below the rule's own counts for nothing: what sealing may
// cost is the rule's to say.
type Choice struct {
	Dict  uint32
	Level int // 0: the rule's own

	// Logins has the choices for values of logins, where these have their own. Then what is above is for
	// values whose login is not known.
	Logins map[string]Choice
}

func (c Choice) of(st codec.Setting) codec.Setting {
	st.Dict = c.Dict
	if c.Level > 0 && c.Level < st.Level {
		st.Level = c.Level
	}
	return st
}

// With returns a policy that differs in the dictionaries of the rules that are
// Auto: those that choose names get what is there, and others keep what they have.
// p stays as it is.
func (p *Policy) With(choose map[string]Choice) *Policy {
	changed := *p
	changed.rules = slices.Clone(p.rules)
	for i := range changed.rules {
		r := &changed.rules[i]
		if c, ok := choose[r.Name]; ok && r.Auto {
			r.logins, r.alone = c.Logins, r.Setting
			r.Setting = c.of(r.Setting)
		}
	}
	changed.force = forcedRules(changed.rules)
	return &changed
}

// ForLogin returns a policy for values that one login has written, "" for the server's default user: where each
// login has its own dictionary, its is used. p stays as it is.
func (p *Policy) ForLogin(login string) *Policy {
	return p.perRule(func(r *Rule) codec.Setting { return r.SettingFor(login) })
}

// WithoutLogins returns a policy for values of which nobody knows who wrote them: where each login has
// its own dictionary, none is used. p stays as it is.
func (p *Policy) WithoutLogins() *Policy {
	return p.perRule(func(r *Rule) codec.Setting {
		if r.Setting.Dict != 0 {
			return r.alone
		}
		return r.Setting
	})
}

// PerLogin names the rules of which each login has its own dictionary.
func (p *Policy) PerLogin() (names []string) {
	for _, r := range p.rules {
		if r.Auto && !r.Shared && r.Seals() {
			names = append(names, r.Name)
		}
	}
	return names
}

// perRule gives rules of which each login has its own dictionary one setting for all.
func (p *Policy) perRule(setting func(*Rule) codec.Setting) *Policy {
	changed := *p
	changed.rules = slices.Clone(p.rules)
	for i := range changed.rules {
		if r := &changed.rules[i]; r.Auto && !r.Shared {
			r.Setting, r.logins = setting(r), nil
		}
	}
	changed.force = forcedRules(changed.rules)
	return &changed
}

// Lookup returns the first rule that covers the address, or nil when the value
// is to be left alone: nothing covers it, that rule says raw, its key is
// excluded, or the policy is off; see foreign.go for rules to plain. The rule, which may be one that only observes, lives as long as the policy.
// Lookup does not allocate. A nil policy is off.
func (p *Policy) Lookup(a Address) *Rule {
	if p == nil || p.Off || p.Excluded(a.Key) {
		return nil
	}
	rules := p.rules
	if p.Force {
		rules = p.force
	}
	if p.toPlain {
		return firstBeside(rules, &a)
	}
	for i := range rules {
		if r := &rules[i]; r.covers(&a) {
			if r.Raw() {
				return nil
			}
			return r
		}
	}
	return nil
}

func (r *Rule) covers(a *Address) bool {
	return r.Types&a.Type != 0 &&
		r.Fits(a.Size) &&
		(r.Space == "" || r.Space == a.Space) &&
		r.key.Match(a.Key) &&
		(r.Field == "" || r.field.Match(a.Field))
}

// Covering appends the rules of a type that cover a value of any size, in order and those that
// say raw included, for things that go by several names: keys and fields are the names of one
// key and of one field. It does so when the policy is off too, since values may have been sealed
// before; see [Policy.Off]. A nil policy has no rules.
func (p *Policy) Covering(dst []*Rule, t Type, keys, fields [][]byte) []*Rule {
	if p == nil || slices.ContainsFunc(keys, p.Excluded) {
		return dst
	}
	rules := p.rules
	if p.Force {
		rules = p.force
	}
	for i := range rules {
		r := &rules[i]
		if r.Types&t != 0 && slices.ContainsFunc(keys, r.key.Match) &&
			(r.Field == "" || slices.ContainsFunc(fields, r.field.Match)) {
			dst = append(dst, r)
		}
	}
	return dst
}

// HasToPlain reports that there may be such values somewhere.
func (p *Policy) HasToPlain() bool { return p != nil && p.toPlain }

// CoversKey reports whether the rule's pattern for keys matches.
func (r *Rule) CoversKey(key []byte) bool { return r.key.Match(key) }

// Fits reports whether a value of n bytes is within the rule's sizes.
func (r *Rule) Fits(n int) bool { return n >= r.MinSize && (r.MaxSize == 0 || n <= r.MaxSize) }

// Excluded reports whether the key is promised to hold no envelopes: it is
// never sealed, and nobody needs to look whether it was.
func (p *Policy) Excluded(key []byte) bool {
	if p == nil {
		return false
	}
	for i := range p.exclude {
		if p.exclude[i].Match(key) {
			return true
		}
	}
	return false
}

// Exclude is the list of globs of keys that never hold envelopes. It belongs to the policy.
func (p *Policy) Exclude() []string { return p.globs }

// MayHoldHash reports whether values of the hash at key may be sealed now or
// may have been earlier under the same rules: some rule for hashes covers the
// key, whatever the rule's setting and sizes, and even when the policy is off.
// So a rule that was ever in force stays in the file until its values are
// unpacked.
func (p *Policy) MayHoldHash(space string, key []byte) bool {
	if p == nil || p.Excluded(key) {
		return false
	}
	if p.Force {
		return true
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.Types&Hash != 0 && (r.Space == "" || r.Space == space) && r.key.Match(key) {
			return true
		}
	}
	return false
}

// MaySeal reports whether a value at key, or in a hash there, may be sealed under this
// policy: some rule that seals covers the key, whatever its sizes. With observe, rules that only observe count as well.
func (p *Policy) MaySeal(space string, key []byte, observe bool) bool {
	if p == nil || p.Off || p.Excluded(key) {
		return false
	}
	if p.Force {
		return true
	}
	for i := range p.rules {
		r := &p.rules[i]
		if !r.Raw() && (observe || !r.Observe) && (r.Space == "" || r.Space == space) && r.key.Match(key) {
			return true
		}
	}
	return false
}

// Dictionaries returns the numbers that rules name, each once, in the order of
// the rules. Off or not, so that they can be put in place beforehand.
func (p *Policy) Dictionaries() []uint32 {
	var numbers []uint32
	seen := map[uint32]bool{0: true}
	for i := range p.rules {
		if n := p.rules[i].Setting.Dict; !seen[n] {
			seen[n] = true
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Rules returns the rules with their defaults filled in, in order. They belong
// to the policy.
func (p *Policy) Rules() []*Rule {
	rules := make([]*Rule, len(p.rules))
	for i := range p.rules {
		rules[i] = &p.rules[i]
	}
	return rules
}

// maxNumberLen is the length of the longest int64 in decimal, with its sign.
const maxNumberLen = 20

var hyperLogLog = []byte("HYLL")

// NeverSeal reports whether a value has to stay as it is whatever the policy
// says, because the server computes on it: a canonical int64 (INCR and its
// kin, and Redis keeps it in 8 bytes anyway) or a HyperLogLog.
func NeverSeal(value []byte) bool {
	return len(value) > 0 && len(value) <= maxNumberLen && isInt64(value) || bytes.HasPrefix(value, hyperLogLog)
}

// isInt64 accepts exactly what Redis's string2ll does: an int64 in the only
// form in which it prints, so no plus, no spaces, no leading zeros, no "-0".
// s has 1 to maxNumberLen bytes.
func isInt64(s []byte) bool {
	if len(s) == 1 && s[0] == '0' {
		return true
	}
	limit := uint64(1<<63 - 1)
	if s[0] == '-' {
		limit++
		s = s[1:]
	}
	if len(s) == 0 || s[0] == '0' {
		return false
	}
	n := uint64(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
		d := uint64(c - '0')
		if n > (limit-d)/10 {
			return false
		}
		n = n*10 + d
	}
	return true
}
