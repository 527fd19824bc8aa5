package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// Direction is the direction of a message. Directions are bits, so that a rule can name both.
type Direction uint8

const (
	Request Direction = 1 << iota
	Reply

	BothDirections = Request | Reply
)

// String returns "request", "reply" or "request+reply".
func (d Direction) String() string {
	switch d {
	case Request:
		return "request"
	case Reply:
		return "reply"
	case BothDirections:
		return "request+reply"
	}
	return "none"
}

// MessageAddress describes a message on a wire: its collection and command. Lookup reads it and keeps nothing
// of it.
type MessageAddress struct {
	Space     []byte    // MongoDB: the namespace, "database.collection"; HTTP: the path
	Command   []byte    // HTTP: the method
	Host      []byte    // HTTP only, without a port
	Type      []byte    // HTTP only: the content type without parameters
	Direction Direction // exactly one bit
	Size      int       // bytes of the message without compression
}

// MessageRule maps messages to a setting. Zero fields mean "any". The rules of a Messages belong to it:
// callers only read them.
type MessageRule struct {
	Name      string   // label in metrics; default "rule-N", N counts from 1
	Space     string   // glob, see Pattern
	Commands  []string // globs
	Host      string   // glob
	Types     []string // globs
	Direction Direction
	MinSize   int     // bytes, inclusive; other messages go on to the next rule
	MaxSize   int     // bytes, inclusive
	MinGain   float64 // share of its bytes that compressing a message must save; 0: no minimum
	Setting   codec.Setting
	Auto      bool // the gateway chooses codec and level, and whether to compress at all

	space, host     Pattern
	commands, types []Pattern
	forLink         *MessageRule // see ForLink
}

// Raw reports whether the rule leaves messages alone.
func (r *MessageRule) Raw() bool { return r.Setting.Codec == codec.Raw && !r.Auto }

// ForLink returns the rule for messages over a link. A link compresses all messages together, so the rule leaves
// each message uncompressed: cinch-proto only rearranges it, and other codecs become raw. It lives as long as r.
func (r *MessageRule) ForLink() *MessageRule { return r.forLink }

// Messages is an immutable list of rules for messages on a wire.
type Messages struct {
	Off   bool // compress nothing
	Force bool // for tests only: compress whatever can be, even at a loss

	rules []MessageRule
}

// NewMessages returns a policy with copies of the rules. Its errors wrap ErrRule.
func NewMessages(rules []MessageRule) (*Messages, error) {
	p := &Messages{}
	for i, r := range rules {
		if err := r.prepare(i); err != nil {
			return nil, fmt.Errorf("%w %d (%q): %w", ErrRule, i+1, r.Name, err)
		}
		carried := r
		carried.Auto, carried.Setting = false, codec.Setting{}
		if r.Setting.IsProto() {
			carried.Setting = codec.Setting{Codec: codec.Proto, Level: codec.Stored}
		}
		r.forLink = &carried
		p.rules = append(p.rules, r)
	}
	return p, nil
}

func (r *MessageRule) prepare(i int) error {
	if r.Name == "" {
		r.Name = fmt.Sprintf("rule-%d", i+1)
	}
	if r.Direction == 0 {
		r.Direction = BothDirections
	}
	switch {
	case r.Direction&^BothDirections != 0:
		return errors.New("has no direction")
	case r.MinSize < 0 || r.MaxSize < 0:
		return errors.New("has a negative size")
	case r.MaxSize != 0 && r.MaxSize < r.MinSize:
		return fmt.Errorf("max size %d is below min size %d", r.MaxSize, r.MinSize)
	case r.MinGain < 0 || r.MinGain >= 1:
		return fmt.Errorf("min gain %v is not between 0 and 1", r.MinGain)
	case r.Auto && r.Setting != codec.Setting{}:
		return errors.New("names a codec, but leaves the choice to the gateway")
	}
	r.space, r.host = compileOrAny(r.Space), compileOrAny(r.Host)
	r.commands, r.types = compileAll(r.Commands), compileAll(r.Types)
	if r.Setting.IsProto() {
		return nil
	}
	return r.Setting.Validate()
}

// Lookup returns the first rule that covers the message, or nil if it is to be left alone. The rule lives as
// long as the policy. Lookup does not allocate. A nil policy is off.
func (p *Messages) Lookup(a MessageAddress) *MessageRule {
	if p == nil || p.Off {
		return nil
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.covers(&a) {
			if r.Raw() {
				return nil
			}
			return r
		}
	}
	return nil
}

func (r *MessageRule) covers(a *MessageAddress) bool {
	return r.Direction&a.Direction != 0 &&
		r.Fits(a.Size) &&
		r.space.Match(a.Space) && r.host.Match(a.Host) &&
		anyMatches(r.commands, a.Command) && anyMatches(r.types, a.Type)
}

func compileAll(globs []string) (list []Pattern) {
	for _, g := range globs {
		list = append(list, Compile(g))
	}
	return list
}

// anyMatches reports whether one of the patterns matches, or there are none.
func anyMatches(list []Pattern, b []byte) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(p Pattern) bool { return p.Match(b) })
}

// Rules returns the rules with their defaults filled in, in order. They belong to the policy.
func (p *Messages) Rules() []*MessageRule {
	rules := make([]*MessageRule, len(p.rules))
	for i := range p.rules {
		rules[i] = &p.rules[i]
	}
	return rules
}

// Covering appends the rules that cover messages with that address whatever their size, in order and including raw
// ones. It is for protocols that agree on an encoding before there is a message. It appends none if the policy is nil
// or off.
func (p *Messages) Covering(dst []*MessageRule, a MessageAddress) []*MessageRule {
	if p == nil || p.Off {
		return dst
	}
	for i := range p.rules {
		r := &p.rules[i]
		a.Size = r.MinSize
		if r.covers(&a) {
			dst = append(dst, r)
		}
	}
	return dst
}

// Fits reports whether a message of n bytes is within the rule's sizes.
func (r *MessageRule) Fits(n int) bool { return n >= r.MinSize && (r.MaxSize == 0 || n <= r.MaxSize) }

// SavesEnough reports whether compressing a message of raw bytes to compressed bytes saves at least one byte, and at
// least the rule's MinGain.
func (r *MessageRule) SavesEnough(raw, compressed int) bool {
	return compressed < raw && float64(raw-compressed) >= r.MinGain*float64(raw)
}
