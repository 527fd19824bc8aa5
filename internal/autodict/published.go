package autodict

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/agreed"
	"github.com/cinch-layer/cinch/internal/policy"
)

// publish makes a document of a policy, without the dictionaries that were chosen meanwhile.
func publish(p *policy.Policy) agreed.Document {
	doc := agreed.Document{Format: agreed.Format, Off: p.Off, Exclude: p.Exclude(), Rules: []agreed.Rule{}}
	for _, r := range p.Rules() {
		one := agreed.Rule{
			Name: r.Name, Key: r.Key, Field: r.Field, Space: r.Space, Types: strings.Split(r.Types.String(), "+"),
			MinSize: r.MinSize, MaxSize: r.MaxSize, MinGain: r.MinGain, Observe: r.Observe,
			Codec: r.Setting.Codec.String(), Level: r.Setting.Level,
		}
		switch {
		case r.ToPlain:
			one.Codec, one.Level, one.MinSize, one.MinGain = codec.Zstd.String(), 1, 1, agreed.NothingGains
		case r.Auto:
			one.Record, one.Shared = Fingerprint(r), r.Shared
		case r.Setting.Dict != 0:
			one.Dictionary = fmt.Sprintf("%08x", r.Setting.Dict)
		}
		doc.Rules = append(doc.Rules, one)
	}
	return doc
}

// saysOf is what counts when two documents are compared.
func saysOf(d agreed.Document) string {
	d.At, d.By = time.Time{}, ""
	text, err := json.Marshal(d)
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
	says := saysOf(doc)
	text, version, err := p.o.Store.Record(ctx, agreed.PolicyRecord)
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
	if version, err = p.o.Store.ReplaceRecord(ctx, agreed.PolicyRecord, version, string(whole)); err == nil && version != 0 {
		p.done = says
	}
}

// saidBy is what a record says; "" of one that can't be read.
func saidBy(text string) string {
	var d agreed.Document
	if json.Unmarshal([]byte(text), &d) != nil {
		return ""
	}
	return saysOf(d)
}
