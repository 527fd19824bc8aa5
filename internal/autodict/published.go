package autodict

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// PolicyRecord is the name of the record by which programs that seal values themselves learn the policy of the gateways in
// front of a store. It is JSON as docs/LIBRARIES.md has it. The gateway that was started or reloaded last says what holds.
const PolicyRecord = "policy"

// PublishedFormat is the version of the record. Readers of another one seal nothing.
const PublishedFormat = 1

// Published is a policy as the record has it.
type Published struct {
	Format  int             `json:"format"`
	At      time.Time       `json:"at"` // by the gateway's clock
	By      string          `json:"by"`
	Off     bool            `json:"off,omitempty"`
	Exclude []string        `json:"exclude,omitempty"`
	Rules   []PublishedRule `json:"rules"`
}

// PublishedRule is one of its rules. What is missing means any.
type PublishedRule struct {
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

// publish makes a document of a policy, without the dictionaries that were chosen meanwhile.
func publish(p *policy.Policy) Published {
	doc := Published{Format: PublishedFormat, Off: p.Off, Exclude: p.Exclude(), Rules: []PublishedRule{}}
	for _, r := range p.Rules() {
		one := PublishedRule{
			Name: r.Name, Key: r.Key, Field: r.Field, Space: r.Space, Types: strings.Split(r.Types.String(), "+"),
			MinSize: r.MinSize, MaxSize: r.MaxSize, MinGain: r.MinGain, Observe: r.Observe,
			Codec: r.Setting.Codec.String(), Level: r.Setting.Level,
		}
		switch {
		case r.Auto:
			one.Record, one.Shared = Fingerprint(r), r.Shared
		case r.Setting.Dict != 0:
			one.Dictionary = fmt.Sprintf("%08x", r.Setting.Dict)
		}
		doc.Rules = append(doc.Rules, one)
	}
	return doc
}

// says is what counts when two documents are compared.
func (p Published) says() string {
	p.At, p.By = time.Time{}, ""
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // of our own types: a mistake of ours
	}
	return string(text)
}

// publisher keeps the record.
type publisher struct {
	o    *Options
	done string // what was published last; another gateway may have replaced it since
}

// step publishes a policy that was not yet, and puts it back where the store has lost it. Only a policy with a managed
// dictionary is published, for others nothing is kept in the store; but where we have published one, what comes after it is, too.
func (p *publisher) step(ctx context.Context, rules *policy.Policy) {
	if rules == nil {
		return
	}
	managed := slices.ContainsFunc(rules.Rules(), func(r *policy.Rule) bool { return r.Auto })
	if !managed && p.done == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	doc := publish(rules)
	says := doc.says()
	text, version, err := p.o.Store.Record(ctx, PolicyRecord)
	switch {
	case err != nil, text != "" && p.done == says, text == "" && !managed:
		return // what is wrong with the store is told where it matters more
	case text != "" && saidBy(text) == says:
		p.done = says
		return
	}
	doc.At, doc.By = p.o.now().UTC().Truncate(time.Second), p.o.By
	whole, err := json.Marshal(doc)
	if err != nil {
		panic(err) // of our own types: a mistake of ours
	}
	if version, err = p.o.Store.ReplaceRecord(ctx, PolicyRecord, version, string(whole)); err == nil && version != 0 {
		p.done = says
	}
}

// saidBy is what a record says; "" of one that can't be read.
func saidBy(text string) string {
	var p Published
	if json.Unmarshal([]byte(text), &p) != nil {
		return ""
	}
	return p.says()
}
