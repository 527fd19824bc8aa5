// Package agreed is the policy as gateways publish it in a store, for programs that seal values themselves. It does no I/O.
//
// The record is JSON as docs/LIBRARIES.md has it. [Document.Policy] makes a policy of it.
package agreed

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// PolicyRecord is the name of the record by which programs that seal values themselves learn the policy of the gateways in
// front of a store. The gateway that was started or reloaded last says what holds.
const PolicyRecord = "policy"

// Format is the version of the record. Readers of another one seal nothing.
const Format = 1

// Document is a policy as the record has it.
type Document struct {
	Format  int       `json:"format"`
	At      time.Time `json:"at"` // by the gateway's clock
	By      string    `json:"by"`
	Off     bool      `json:"off,omitempty"`
	Exclude []string  `json:"exclude,omitempty"`
	Rules   []Rule    `json:"rules"`
}

// Rule is one of its rules. What is missing means any.
type Rule struct {
	Name       string   `json:"name"`
	Key        string   `json:"key,omitempty"`
	Field      string   `json:"field,omitempty"`
	Space      string   `json:"space,omitempty"`
	Types      []string `json:"types"`
	MinSize    int      `json:"min_size"`
	MaxSize    int      `json:"max_size,omitempty"`
	MinGain    float64  `json:"min_gain"`
	Observe    bool     `json:"observe,omitempty"`
	Codec      string   `json:"codec"`
	Level      int      `json:"level,omitempty"`
	Dictionary string   `json:"dictionary,omitempty"` // that the rule names, 8 hex digits
	Record     string   `json:"record,omitempty"`     // that says which dictionary is in force, for the server's default user
	Shared     bool     `json:"shared,omitempty"`     // other users have the same record
}

// NothingGains is the MinGain of a rule under which libraries seal nothing, and yet refuse what computes on values: gateways seal there,
// in ways that are theirs alone. Versions that do not know it try, and find that nothing gains as much.
const NothingGains = 0.999999999

// Parse reads the record's text. No text is a document that seals nothing, as is one of another format.
func Parse(text string) (Document, error) {
	nothing := Document{Format: Format, Off: true}
	if text == "" {
		return nothing, nil
	}
	var head struct{ Format int }
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return nothing, fmt.Errorf("the published policy: %w", err)
	}
	if head.Format != Format {
		return nothing, nil
	}
	var doc Document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nothing, fmt.Errorf("the published policy: %w", err)
	}
	return doc, nil
}

// RecordFor is the name of the record that says which dictionary of the rule is in force for values that a login writes, "" for
// the server's default user; "" where there is none.
func (r *Rule) RecordFor(login string) string {
	if r.Record == "" || r.Shared || login == "" {
		return r.Record
	}
	return RecordOfLogin(r.Record, login)
}

// Fixed is the dictionary that the rule names itself; none, if it names none.
func (r *Rule) Fixed() (policy.Choice, error) {
	if r.Dictionary == "" {
		return policy.Choice{}, nil
	}
	number, err := strconv.ParseUint(r.Dictionary, 16, 32)
	return policy.Choice{Dict: uint32(number)}, err
}

// RecordOfLogin is the name of a rule's record for the values of a login that is not the server's default user.
func RecordOfLogin(record, login string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(record+" "+login)))[:16]
}

// Current reads the dictionary in force out of a rule's record; none, if it says so or is empty.
func Current(text string) (policy.Choice, error) {
	var r struct {
		Current *struct {
			Dict  string
			Level int
		}
	}
	if text == "" {
		return policy.Choice{}, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Current == nil {
		return policy.Choice{}, err
	}
	number, err := strconv.ParseUint(r.Current.Dict, 16, 32)
	return policy.Choice{Dict: uint32(number), Level: r.Current.Level}, err
}

// defaultLevel is that of zstd where a rule names none, or another codec.
const defaultLevel = 3

// Policy makes a policy of the document, with the dictionaries that choose names. Values are sealed with zstd, whatever codec a rule has.
func (d Document) Policy(choose func(*Rule) policy.Choice) (*policy.Policy, error) {
	o := policy.Options{Exclude: d.Exclude, Off: d.Off}
	for i := range d.Rules {
		r := &d.Rules[i]
		types := typesOf(r.Types)
		if types == 0 {
			continue // of a kind that came later: it covers nothing here
		}
		o.Rules = append(o.Rules, policy.Rule{
			Name: r.Name, Key: r.Key, Field: r.Field, Space: r.Space, Types: types,
			MinSize: r.MinSize, MaxSize: r.MaxSize, MinGain: r.MinGain, Observe: r.Observe, Setting: r.setting(choose(r)),
		})
	}
	return policy.New(o)
}

func (r *Rule) setting(c policy.Choice) codec.Setting {
	st := codec.Setting{Codec: codec.Zstd, Level: defaultLevel, Dict: c.Dict}
	switch {
	case r.Codec == codec.Raw.String():
		return codec.Setting{Codec: codec.Raw}
	case r.Codec == codec.Zstd.String() && r.Level != 0:
		st.Level = r.Level
	}
	if c.Level > 0 && c.Level < st.Level {
		st.Level = c.Level
	}
	return st
}

func typesOf(names []string) (types policy.Type) {
	for _, name := range names {
		for t := policy.Type(1); t&policy.Any != 0; t <<= 1 {
			if t.String() == name {
				types |= t
			}
		}
	}
	return types
}
