package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
)

// ErrNotAmong reports that messages were measured, but none of the requested telemetry.
var ErrNotAmong = fmt.Errorf("%w of that kind", ErrNoMessages)

// ErrNoMessages reports an answer that is not from a gateway's /api/messages, or has no messages.
var ErrNoMessages = errors.New("no measured messages")

// gatewayMessages has the fields used of an element of /api/messages.
type gatewayMessages struct {
	Gateway  string `json:"gateway"`
	Messages []struct {
		Method    string `json:"method"`
		Direction string `json:"direction"`
		Messages  int64  `json:"messages"`
		Bytes     int64  `json:"bytes"`
		Sampled   int    `json:"sample_messages"`
		Sizes     []struct {
			UpTo     int64   `json:"up_to_bytes"`
			Messages float64 `json:"messages"`
		} `json:"sizes"`
		Compressed int64 `json:"compressed_messages"`
		Estimates  []struct {
			Setting string  `json:"setting"`
			Ratio   float64 `json:"ratio"`
		} `json:"estimates"`
	} `json:"messages"`
}

// enoughUptime is the uptime in seconds from which rates are assumed to hold for a month.
const enoughUptime = 86400

// Limits of an answer, in bytes and kinds.
const (
	maxMessagesBytes = 8 << 20
	maxKinds         = 4096
)

// Messages returns a plan of what a running gateway has measured during uptime, in seconds, according to its
// /api/messages. The gateway reports sizes for each setting, but not CPU, so the plan has no CPU in it.
func Messages(answer io.Reader, uptime float64, o Options) (*Report, error) {
	var list []gatewayMessages
	if err := json.NewDecoder(io.LimitReader(answer, maxMessagesBytes)).Decode(&list); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMessages, err)
	}
	o.Source.Medium = price.OnWire
	o.setDefaults()
	if o.Telemetry == "" {
		o.Source.Notes = append(o.Source.Notes, sameZone)
	}
	if o.Telemetry != "" && uptime < enoughUptime {
		o.Source.Notes = append(o.Source.Notes, fmt.Sprintf("a month is extrapolated from the %.0f s that the gateway has been up: plan again after a whole day", uptime))
	}
	o.Source.Notes = append(o.Source.Notes, "a gateway reports ratios but no CPU: to measure CPU, plan a file of such messages")
	p := &planner{Options: o}
	c := NewCollector(CollectOptions{})
	r := p.newReport(c)
	r.LookedAt.Whole = true
	kinds := 0
	for _, gw := range list {
		for i := range gw.Messages {
			if kinds++; kinds > maxKinds {
				return nil, fmt.Errorf("%w: more than %d kinds", ErrNoMessages, maxKinds)
			}
			if o.Telemetry.covers(gw.Messages[i].Method) {
				p.kind(r, &gw, i, uptime)
			}
		}
	}
	switch {
	case len(r.Groups) == 0 && o.Telemetry != "" && kinds > 0:
		return nil, ErrNotAmong
	case len(r.Groups) == 0:
		return nil, ErrNoMessages
	}
	r.finish()
	r.crossings(p.Layout)
	return r, nil
}

// kind adds the messages of one method and direction.
func (p *planner) kind(r *Report, gw *gatewayMessages, i int, uptime float64) {
	m := &gw.Messages[i]
	if m.Compressed > 0 {
		if r.Left == nil {
			r.Left = make(map[string]float64)
		}
		r.Left["messages that came compressed"] += float64(m.Compressed)
	}
	if m.Messages <= 0 || m.Bytes <= 0 {
		return
	}
	r.LookedAt.Values += m.Messages
	r.LookedAt.Bytes += m.Bytes
	pattern, kind, protocol := addressOf(m.Method, m.Direction)
	r.mixed = r.mixed || r.Protocol != "" && r.Protocol != protocol
	r.Protocol = protocol
	g := &GroupPlan{
		Space: gw.Gateway, Pattern: pattern, Type: kind, Values: float64(m.Messages), Mean: float64(m.Bytes) / float64(m.Messages),
		Now: m.Bytes, Measured: m.Sampled, Choice: -1, Best: -1, Options: []Option{},
	}
	var s sizes
	for _, b := range m.Sizes {
		g.Sizes = append(g.Sizes, SizeCount{b.UpTo, b.Messages})
		s.add(int(b.UpTo), 0, b.Messages)
	}
	g.Median, g.P99 = s.quantile(0.5), s.quantile(0.99)
	r.perValue = Rates{Reads: 1 / max(uptime, 1)}
	r.Rates.Reads += g.Values / max(uptime, 1)
	load := r.load(g, 0, g.Mean)
	g.BillNow, g.wire = p.Prices.Month(price.OnWire, load, p.Layout), load.WireRate(p.Layout)
	for _, e := range m.Estimates {
		c, err := estimated(e.Setting, protocol)
		if err != nil || !(e.Ratio >= 1) {
			continue
		}
		sample := Measured{Candidate: c, Values: m.Sampled, Sealed: m.Sampled, Raw: m.Bytes, Before: m.Bytes}
		sample.Stored = int64(float64(m.Bytes) / e.Ratio)
		sample.After = sample.Stored
		g.Options = append(g.Options, p.option(g, &sample, r))
	}
	p.choose(g)
	r.add(g)
}

// estimated returns the candidate for a gateway's name of a setting; a prefix "pair" means two gateways.
func estimated(text, protocol string) (c Candidate, err error) {
	setting, isPair := strings.CutPrefix(text, pairPrefix)
	if setting == codec.Proto.String() {
		c.Setting.Codec = codec.Proto
	} else if c, err = ParseCandidate(setting); err != nil {
		return c, err
	}
	switch {
	case isPair:
		c.encoding = encodingPair
	case protocol == config.Mongo:
		c.encoding = encodingProtocol
	}
	return c, nil
}

// addressOf parses a gateway's name of a kind of messages: "/service/method" of gRPC, "POST /path" of HTTP,
// "namespace command" of MongoDB.
func addressOf(method, direction string) (pattern, kind, protocol string) {
	space, command, two := strings.Cut(method, " ")
	switch {
	case !two || strings.HasPrefix(method, "/"):
		return method, direction, config.GRPC
	case strings.HasPrefix(command, "/"):
		return escapeGlob(command), space + " " + direction, config.HTTP
	}
	return escapeGlob(space), command + " " + direction, config.Mongo
}

// sameZone is the first advice for traffic between services: within a zone it costs nothing.
const sameZone = "first see whether both ends can be in one zone, where traffic is free: in Kubernetes set trafficDistribution: PreferSameZone"
