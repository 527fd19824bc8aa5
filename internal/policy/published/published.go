// Package published decodes the policy document that gateways publish in a store for programs that compress
// values themselves. It does no I/O.
//
// The record is JSON, described in docs/LIBRARIES.md. [Document.Policy] turns it into a policy.
package published

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// PolicyRecord is the name of the record with the policy of the gateways in front of a store. The gateway
// that was started or reloaded last writes it.
const PolicyRecord = "policy"

// Format is the version of the record. Readers that find another version compress nothing.
const Format = 1

// Document is the policy in the record.
type Document struct {
	Format  int       `json:"format"`
	At      time.Time `json:"at"` // time of publication, by the gateway's clock
	By      string    `json:"by"`
	Off     bool      `json:"off,omitempty"`
	Exclude []string  `json:"exclude,omitempty"`
	Rules   []Rule    `json:"rules"`
}

// Rule is a rule of a Document. A missing field means any.
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
	Dictionary string   `json:"dictionary,omitempty"` // dictionary that the rule names, 8 hex digits
	Record     string   `json:"record,omitempty"`     // name of the record with the current dictionary, for the server's default user
	Shared     bool     `json:"shared,omitempty"`     // all users have the same record
}

// Disabled is the MinGain of a rule under which gateways compress in ways that libraries don't support.
// Libraries must not compress there, but must refuse commands that compute on values. Library versions that do not
// know this number try to compress, and find that no value gains that much.
const Disabled = 0.999999999

// Parse parses the record's text. For an empty text, and for another format, it returns a document that
// compresses nothing.
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

// RecordFor returns the name of the record with the rule's current dictionary for values that the user login
// writes ("": the server's default user). It returns "" if there is none.
func (r *Rule) RecordFor(login string) string {
	if r.Record == "" || r.Shared || login == "" {
		return r.Record
	}
	return RecordOfLogin(r.Record, login)
}

// Fixed returns the dictionary that the rule names; the zero Choice if it names none.
func (r *Rule) Fixed() (policy.Choice, error) {
	if r.Dictionary == "" {
		return policy.Choice{}, nil
	}
	number, err := strconv.ParseUint(r.Dictionary, 16, 32)
	return policy.Choice{Dict: uint32(number)}, err
}

// RecordOfLogin returns the name of a rule's record for the values of a user other than the server's default
// user.
func RecordOfLogin(record, login string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(record+" "+login)))[:16]
}

// Current returns the current dictionary in a rule's record; the zero Choice if the record is empty or names
// none.
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

// defaultLevel is the level of zstd for rules without a level or with another codec.
const defaultLevel = 3

// Policy returns the document's policy, with the dictionaries that choose returns. Values are compressed with
// zstd, whatever the codec of a rule, except raw.
func (d Document) Policy(choose func(*Rule) policy.Choice) (*policy.Policy, error) {
	o := policy.Options{Exclude: d.Exclude, Off: d.Off}
	for i := range d.Rules {
		r := &d.Rules[i]
		types := typesOf(r.Types)
		if types == 0 {
			continue // only types of a later version: the rule covers nothing here
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
