// Package policy decides what happens to a value: an ordered list of rules maps an address (space, key,
// field, type, size) to a codec setting.
//
// It is pure: no I/O, no clock, no metrics. A Policy does not change once it is built, so that any number of
// goroutines may use it; a reload builds a new one and swaps the pointer.
package policy

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// Defaults of a rule's omitted fields.
const (
	// DefaultMinSize is in bytes. An envelope costs 11 bytes, 19 with a dictionary, and Redis keeps a string
	// below 64 in one small allocation, so little can be gained.
	DefaultMinSize = 64
	// DefaultMinGain is the share of the server's allocation that compressing has to save, see [Rule.SavesEnough].
	DefaultMinGain = 0.10
	// AnyGain as a rule's MinGain accepts the smallest saving. (Zero means the default.)
	AnyGain = 1e-12
	// DefaultTypes are the types of a rule without types. Streams are opt-in.
	DefaultTypes = String | Hash
)

// Type is the type of the key, tuple or call that holds a value. Types are bits, so that a rule can name several.
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

// Address identifies a value. Lookup reads it and keeps nothing of it.
type Address struct {
	Space string // Redis: the database number in decimal
	Key   []byte
	Field []byte // nil where there is none
	Type  Type   // exactly one bit
	Size  int    // bytes of the value as the application sent it
}

// Rule maps a set of addresses to a setting. Zero fields mean "any", or the default named above. The rules of
// a Policy belong to it: callers only read them.
type Rule struct {
	Name    string // label in metrics; default "rule-N", N counts from 1
	Key     string // glob, see Pattern
	Field   string // glob for a hash's or a stream's field; such a rule never covers strings
	Space   string
	Types   Type
	MinSize int     // bytes, inclusive; other values go on to the next rule
	MaxSize int     // bytes, inclusive
	MinGain float64 // 0.10 is 10 %
	Setting codec.Setting
	Auto    bool // the dictionary in Setting is chosen while the policy is in force; see With
	// Unconstrained asserts that no constraint hidden from the gateway's user reads the field (Tarantool).
	Unconstrained bool
	// Observe compresses, decompresses and counts values, but stores none compressed: see [Rule.Compresses].
	Observe bool
	// Shared trains one dictionary on, and for, the values of all logins; otherwise each login has its own.
	Shared bool
	// Formats lists the formats in which the clients' library compresses values. The gateway decompresses such values
	// and compresses their content itself.
	Formats []clientformat.Format
	// ToPlain gives clients the content itself, instead of the library's format.
	ToPlain bool

	logins     map[string]Choice // see SettingFor; nil: all have Setting
	alone      codec.Setting     // without any dictionary
	key, field Pattern
	forced     bool
}

// SettingFor returns the setting for a value that a login writes, "" for the server's default user. It does
// not allocate.
func (r *Rule) SettingFor(login string) codec.Setting {
	if r.logins == nil {
		return r.Setting
	}
	return r.logins[login].of(r.alone)
}

// SettingForNobody returns the setting for a value whose writer is unknown: where each login has its own dictionary,
// none is used.
func (r *Rule) SettingForNobody() codec.Setting {
	if r.logins == nil {
		return r.Setting
	}
	return r.alone
}

// Raw reports whether the rule leaves values alone.
func (r *Rule) Raw() bool { return r.Setting.Codec == codec.Raw }

// Compresses reports whether values under the rule are stored compressed.
func (r *Rule) Compresses() bool { return !r.Raw() && !r.Observe }

// Options describe a policy.
type Options struct {
	Rules   []Rule   // in order, the first match decides
	Exclude []string // globs of keys that never hold envelopes
	Off     bool
	Force   bool
}

// Policy is an immutable list of rules.
type Policy struct {
	// Off compresses nothing. Values that are already compressed stay readable.
	Off bool
	// Force is for tests only: every value of every key that is not excluded is compressed, even at a loss;
	// callers still check NeverSeal.
	Force bool
	// SpecialKeys reports whether keys are excluded or a rule has to: plain. Otherwise reading a value does not
	// depend on its key.
	SpecialKeys bool

	rules   []Rule
	toPlain bool // a rule has to: plain
	exclude []Pattern
	globs   []string // of exclude
	force   []Rule   // the same rules in the same order, forced, and a last one that covers the rest
}

// ErrRule is wrapped by every error of New.
var ErrRule = errors.New("invalid rule")

// New returns a policy with copies of what o holds.
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
		return fmt.Errorf("covers no type with values (a rule with a field covers hashes and streams)")
	case r.MinSize < 0:
		return fmt.Errorf("min size %d is negative", r.MinSize)
	case r.MaxSize < 0:
		return fmt.Errorf("max size %d is negative", r.MaxSize)
	case r.MaxSize != 0 && r.MaxSize < r.MinSize:
		return fmt.Errorf("max size %d is below min size %d", r.MaxSize, r.MinSize)
	case r.Auto && r.Setting.Codec != codec.Zstd:
		return fmt.Errorf("%s does not support dictionaries", r.Setting.Codec)
	case r.ToPlain && len(r.Formats) == 0:
		return fmt.Errorf("needs a format to convert to plain")
	case r.ToPlain && (r.Field != "" || r.Types&^(String|Hash) != 0):
		return fmt.Errorf("conversion to plain is only for strings, and for all fields of hashes")
	case !(r.MinGain > 0 && r.MinGain < 1):
		return fmt.Errorf("min gain %v is not between 0 and 1", r.MinGain)
	}
	return r.Setting.Validate()
}

// forcedRules returns the rules as Force applies them: no sizes, no minimum gain, nothing raw, and a last one
// for whatever no rule covers.
func forcedRules(rules []Rule) []Rule {
	last := Rule{Name: "force", Setting: codec.Setting{Codec: codec.Zstd}}
	forced := make([]Rule, 0, len(rules)+1)
	for _, r := range rules {
		if r.Compresses() {
			r.MinSize, r.MaxSize, r.forced = 0, 0, true
			forced = append(forced, r)
		}
	}
	last.Types, last.forced = Any, true
	last.key, last.field = Compile("*"), Compile("*")
	return append(forced, last)
}

// Choice is the dictionary chosen for a rule, 0 for none, and a level for it. A level that is not below the
// rule's own is ignored: the rule limits the cost of compressing.
type Choice struct {
	Dict  uint32
	Level int // 0: the rule's own

	// Logins has the choices for values of logins that have their own. The fields above are then for values
	// whose login is unknown.
	Logins map[string]Choice
}

func (c Choice) of(st codec.Setting) codec.Setting {
	st.Dict = c.Dict
	if c.Level > 0 && c.Level < st.Level {
		st.Level = c.Level
	}
	return st
}

// With returns a policy with other dictionaries for the rules that are Auto and named in choose; all others
// keep theirs. p is not changed.
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

// PerLogin returns the names of the rules with a dictionary per login.
func (p *Policy) PerLogin() (names []string) {
	for _, r := range p.rules {
		if r.Auto && !r.Shared && r.Compresses() {
			names = append(names, r.Name)
		}
	}
	return names
}

// Lookup returns the first rule that covers the address, or nil when the value is to be left alone: nothing covers
// it, that rule says raw, its key is excluded, or the policy is off; see toplain.go for rules with to: plain. The
// rule may be one that only observes, and lives as long as the policy. Lookup does not allocate. A nil policy is
// off.
func (p *Policy) Lookup(a Address) *Rule {
	if p == nil || p.Off || p.Excluded(a.Key) {
		return nil
	}
	rules := p.rules
	if p.Force {
		rules = p.force
	}
	if p.toPlain {
		return firstNonRaw(rules, &a)
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

// Covering appends the rules of a type that cover a value of any size, in order and including raw ones. keys are
// all names of the value's key, and fields all names of its field: a space or field of Tarantool has a name and a
// number. It does so when the policy is off too, since values may have been compressed before; see [Policy.Off]. A
// nil policy has no rules.
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

// HasToPlain reports whether a rule has to: plain.
func (p *Policy) HasToPlain() bool { return p != nil && p.toPlain }

// CoversKey reports whether the rule's pattern for keys matches.
func (r *Rule) CoversKey(key []byte) bool { return r.key.Match(key) }

// Fits reports whether a value of n bytes is within the rule's sizes.
func (r *Rule) Fits(n int) bool { return n >= r.MinSize && (r.MaxSize == 0 || n <= r.MaxSize) }

// Excluded reports whether the operator has declared that the key holds no envelopes: its values are never
// compressed, and need not be checked for envelopes.
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

// Exclude returns the globs of keys that never hold envelopes. They belong to the policy.
func (p *Policy) Exclude() []string { return p.globs }

// MayHoldHash reports whether values of the hash at key may be compressed now or may have been earlier under
// the same rules: a rule for hashes covers the key, whatever the rule's setting and sizes, and even when the
// policy is off. So a rule that was ever in force stays in the file until its values are unpacked.
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

// MaySeal reports whether a value at key, or in a hash there, may be compressed under this policy: a rule
// that compresses covers the key, whatever its sizes. With observe, rules that only observe count as well.
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

// Dictionaries returns the numbers of the dictionaries that rules name, those of logins too, each once, in the order of
// the rules. It does so when the policy is off too, so that they can be put in place beforehand.
func (p *Policy) Dictionaries() (numbers []uint32) {
	add := func(n uint32) {
		if n != 0 && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	for i := range p.rules {
		r := &p.rules[i]
		add(r.Setting.Dict)
		for _, login := range slices.Sorted(maps.Keys(r.logins)) {
			add(r.logins[login].Dict)
		}
	}
	return numbers
}

// Rules returns the rules with their defaults filled in, in order. They belong to the policy.
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

// NeverSeal reports whether a value has to stay unchanged whatever the policy says, because the server
// computes on it: a canonical int64 (INCR and similar commands; Redis keeps it in 8 bytes anyway) or a
// HyperLogLog.
func NeverSeal(value []byte) bool {
	return len(value) > 0 && len(value) <= maxNumberLen && isInt64(value) || bytes.HasPrefix(value, hyperLogLog)
}

// isInt64 accepts exactly what Redis's string2ll does: an int64 in its canonical form, so no plus, no spaces,
// no leading zeros, no "-0". s has 1 to maxNumberLen bytes.
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
