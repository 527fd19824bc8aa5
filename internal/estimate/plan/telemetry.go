package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Telemetry selects the messages of a gateway that a plan covers; "" is all.
type Telemetry string

// The kinds of telemetry, by their paths.
const (
	OTLP        Telemetry = "otlp"
	RemoteWrite Telemetry = "remote-write"
)

// Destinations of telemetry: suffixes of HTTP paths, and gRPC services.
var (
	otlpPaths        = []string{"/v1/metrics", "/v1/traces", "/v1/logs", "/v1development/profiles"}
	otlpServices     = "/opentelemetry.proto.collector."
	remoteWritePaths = []string{"/api/v1/write", "/api/v1/push", "/api/v1/receive", "/api/prom/push", "/api/v1/prom/write", "/prom/remote/write"}
	lokiPath         = "/loki/api/v1/push" // not remote write
)

// covers reports whether t includes a gateway's kind of messages, named as in /api/messages.
func (t Telemetry) covers(method string) bool {
	verb, path, isHTTP := strings.Cut(method, " ")
	if !isHTTP {
		return t == "" || t == OTLP && strings.HasPrefix(verb, otlpServices)
	}
	path = strings.TrimSuffix(path, "/")
	endsIn := func(end string) bool { return strings.HasSuffix(path, end) }
	switch t {
	case OTLP:
		return slices.ContainsFunc(otlpPaths, endsIn)
	case RemoteWrite:
		return slices.ContainsFunc(remoteWritePaths, endsIn) && !endsIn(lokiPath)
	}
	return true
}

// Crossing is a way to send all messages of a plan between two places, with its monthly traffic between
// zones.
type Crossing struct {
	Name    string  `json:"name"`
	Takes   string  `json:"takes"`         // requirements
	Bytes   float64 `json:"bytes_a_month"` // between zones
	Dollars float64 `json:"month"`
	Saves   float64 `json:"saves"` // share of bytes
}

// crossings adds the ways, from the current one to the one that saves most. Messages that a way does not
// apply to stay unchanged.
func (r *Report) crossings(at price.Layout) {
	if r.Telemetry == "" {
		return
	}
	r.crossing("unchanged", "no change", at, nil)
	r.crossing("zstd, by message", "receiver reads zstd", at, func(c Candidate) bool {
		return c.encoding == "" && c.Setting == codec.Setting{Codec: codec.Zstd, Level: 3}
	})
	r.crossing("cinch-proto, by message", "Cinch at both ends", at, func(c Candidate) bool {
		return c.encoding == "" && c.Setting.Codec == codec.Proto
	})
	r.crossing("two gateways, with history", "a gateway at each end", at, func(c Candidate) bool { return c.encoding == encodingPair })
}

// crossing adds a way if it applies to some messages. may selects its candidates; nil: none.
func (r *Report) crossing(name, takes string, at price.Layout, may func(Candidate) bool) {
	c := Crossing{Name: name, Takes: takes}
	var now float64
	found := may == nil
	for _, g := range r.Groups {
		wire, dollars := g.wire, g.BillNow.Traffic
		now += wire
		for i := range g.Options {
			o := &g.Options[i]
			if may == nil || !may(o.candidate) {
				continue
			}
			found = true
			if o.wire < wire {
				wire, dollars = o.wire, o.Bill.Traffic
			}
		}
		c.Bytes, c.Dollars = c.Bytes+wire, c.Dollars+dollars
	}
	if now > 0 {
		c.Saves = 1 - c.Bytes/now
	}
	c.Bytes *= at.Crossing() * price.SecondsPerMonth
	if found {
		r.Crossings = append(r.Crossings, c)
	}
}

// firstWords returns the advice that costs nothing and saves everything.
func (t Telemetry) firstWords() string {
	s := "F" + sameZone[1:] + ". Compression is for traffic that has to cross zones: senders and receivers in different zones, copies in several"
	if t == RemoteWrite {
		return s + ". A Prometheus in each zone can write to a receiver in its own zone"
	}
	return s + ". Run a collector in each zone; outside of Kubernetes, clients that know their zone choose it"
}

// moneyWords returns the price of a byte between zones, and what the figures leave out.
func (r *Report) moneyWords() string {
	out, in := r.Prices[price.CrossZoneOut].Price, r.Prices[price.CrossZoneIn].Price
	if out+in == 0 {
		return "Traffic between zones costs nothing at these prices (--cloud, --prices): there is no money to be saved, only bytes."
	}
	who := fmt.Sprintf("$%g a GB for the sender and $%g for the receiver", out, in)
	switch {
	case in == 0:
		who = fmt.Sprintf("$%g a GB for the sender, nothing for the receiver", out)
	case out == 0:
		who = fmt.Sprintf("$%g a GB for the receiver, nothing for the sender", in)
	}
	return fmt.Sprintf("Traffic between zones costs %s (--cloud, --prices); %s. CPU, and traffic from the receiver to further zones, are not included.", who, r.crossingWords())
}

// betweenZones returns the page's section on the costs of telemetry between zones.
func (r *Report) betweenZones() (page.Section, bool) {
	s := page.Section{Title: "Between zones, a month", Words: []string{r.Telemetry.firstWords() + ".", r.moneyWords()}}
	t := &page.Table{Header: []page.Column{{Name: "Way"}, {Name: "Bytes"}, {Name: "Saves"}, {Name: "A month"}, {Name: "Takes", Text: true}}}
	b := &page.Bars{}
	for i, c := range r.Crossings {
		size, class := terminal.Size(int64(c.Bytes)), "after"
		if i == 0 {
			class = "now"
		}
		t.Rows = append(t.Rows, page.Row{Cells: []string{c.Name, size, percentOf(c.Saves, 1), terminal.Dollars(c.Dollars), c.Takes}})
		b.Rows = append(b.Rows, page.BarRow{Name: c.Name, Bars: []page.Bar{{
			Label: size + ", " + terminal.Dollars(c.Dollars), Parts: []page.Part{{Class: class, Value: c.Bytes, Tip: c.Name + ": " + size}},
		}}})
	}
	s.Bars, s.Table = b, t
	return s, len(r.Crossings) > 0
}

// messages returns the word for messages of a protocol.
func (t Telemetry) messages() string {
	if t == "" {
		return "values"
	}
	return "messages"
}
