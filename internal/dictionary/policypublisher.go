package dictionary

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/published"
)

// publish returns the document for the policy as configured, without dictionaries that were chosen later.
func publish(p *policy.Policy) published.Document {
	doc := published.Document{Format: published.Format, Off: p.Off, Exclude: p.Exclude(), Rules: []published.Rule{}}
	for _, r := range p.Rules() {
		one := published.Rule{
			Name: r.Name, Key: r.Key, Field: r.Field, Space: r.Space, Types: strings.Split(r.Types.String(), "+"),
			MinSize: r.MinSize, MaxSize: r.MaxSize, MinGain: r.MinGain, Observe: r.Observe,
			Codec: r.Setting.Codec.String(), Level: r.Setting.Level,
		}
		switch {
		case r.ToPlain:
			one.Codec, one.Level, one.MinSize, one.MinGain = codec.Zstd.String(), 1, 1, published.Disabled
		case r.Auto:
			one.Record, one.Shared = Fingerprint(r), r.Shared
		case r.Setting.Dict != 0:
			one.Dictionary = fmt.Sprintf("%08x", r.Setting.Dict)
		}
		doc.Rules = append(doc.Rules, one)
	}
	return doc
}

// comparableText returns the part of a document that matters for comparisons, as text.
func comparableText(d published.Document) string {
	d.At, d.By = time.Time{}, ""
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // a bug: these types marshal
	}
	return string(text)
}

// publisher keeps the policy record in the store up to date.
type publisher struct {
	o         *Options
	published string // last published text; another gateway may have replaced it since
}

// step publishes the policy if it is new, or if the store has lost it. A policy without managed dictionaries needs no
// record: it is published only to replace one that this gateway published before.
func (p *publisher) step(ctx context.Context, rules *policy.Policy) {
	if rules == nil {
		return
	}
	managed := slices.ContainsFunc(rules.Rules(), func(r *policy.Rule) bool { return r.Auto })
	if !managed && p.published == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	doc := publish(rules)
	says := comparableText(doc)
	text, version, err := p.o.Store.Record(ctx, published.PolicyRecord)
	switch {
	case err != nil, text != "" && p.published == says, text == "" && !managed:
		return // errors of the store are reported elsewhere
	case text != "" && recordText(text) == says:
		p.published = says
		return
	}
	doc.At, doc.By = p.o.now().UTC().Truncate(time.Second), p.o.By
	whole, err := json.Marshal(doc)
	if err != nil {
		panic(err) // a bug: these types marshal
	}
	if version, err = p.o.Store.ReplaceRecord(ctx, published.PolicyRecord, version, string(whole)); err == nil && version != 0 {
		p.published = says
	}
}

// recordText returns the comparable text of a record; "" if it can't be read.
func recordText(text string) string {
	var d published.Document
	if json.Unmarshal([]byte(text), &d) != nil {
		return ""
	}
	return comparableText(d)
}
