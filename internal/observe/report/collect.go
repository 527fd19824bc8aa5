package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/observe/admin/remote"
)

// Errors about sources.
var (
	// ErrNoAnswer reports a server that does not answer.
	ErrNoAnswer = errors.New("no answer")
	// ErrNothing reports a period in which nothing was counted.
	ErrNothing = errors.New("there are no samples in that time")
	// ErrAccess reports a wrong or missing token or password.
	ErrAccess = errors.New("it requires a token or a password")
)

// Page is an admin page.
type Page interface {
	Name() string
	Status(context.Context) (admin.Status, error)
	Get(ctx context.Context, path string, read func(io.Reader) error) error
}

// Source is a source of figures.
type Source struct {
	Name   string     `json:"name"`
	Oldest *time.Time `json:"oldest,omitempty"` // the first available sample
	Path   string     `json:"path,omitempty"`   // empty: in memory
}

// reads is the name of the row for values that are read. They are not counted by rule.
const reads = "(reads)"

// key identifies a row.
type key struct{ gateway, rule string }

// usage holds the counts of a row, by step.
type usage struct {
	raw, stored, cpu, sealed []float64
}

// wire holds the bytes on the two sides of gateways, by step.
type wire struct{ in, out []float64 }

// Window is the requested period.
type Window struct {
	From, To time.Time
	Step     time.Duration
}

func (w Window) steps() int { return int((w.To.Sub(w.From)-1)/w.Step) + 1 }

// at returns the beginning of a step.
func (w Window) at(step int) time.Time {
	at := w.From.Add(time.Duration(step) * w.Step).UTC()
	if at.After(w.To) {
		at = w.To.UTC()
	}
	return at
}

// wantedSteps limits the steps of a window: enough to show how much the saving varies, few enough to be
// quick.
const wantedSteps = 720

// NewWindow divides a period into steps: whole minutes, hours or days if it is long enough.
func NewWindow(from, to time.Time) Window {
	w := Window{From: from, To: to}
	for _, w.Step = range []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
		if w.steps() <= wantedSteps {
			return w
		}
	}
	w.Step *= time.Duration((w.steps()-1)/wantedSteps + 1)
	return w
}

// Counted holds the counts of all sources.
type Counted struct {
	Window   Window
	Sources  []Source
	rows     map[key]*usage
	wires    map[string]*wire // by gateway
	training []float64        // CPU seconds of training dictionaries, by step
}

// NewCounted returns a Counted without counts.
func NewCounted(w Window) *Counted {
	return &Counted{Window: w, rows: map[key]*usage{}, wires: map[string]*wire{}, training: make([]float64, w.steps())}
}

func (c *Counted) wire(gateway string) *wire {
	if c.wires[gateway] == nil {
		c.wires[gateway] = &wire{make([]float64, c.Window.steps()), make([]float64, c.Window.steps())}
	}
	return c.wires[gateway]
}

func (c *Counted) row(gateway, rule string) *usage {
	k := key{gateway, rule}
	if c.rows[k] == nil {
		n := c.Window.steps()
		c.rows[k] = &usage{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)}
	}
	return c.rows[k]
}

const wantedSeries = "raw_bytes,stored_bytes,seal_cpu_us,sealed_values,opened_raw_bytes,opened_stored_bytes,open_cpu_us," +
	"client_received_bytes,client_sent_bytes,upstream_received_bytes,upstream_sent_bytes,stores_values,training_cpu_us"

// Collect queries pages. Gateways with the same name on several pages count as one: they serve the same
// purpose side by side.
func Collect(ctx context.Context, pages []Page, w Window) (*Counted, error) {
	c := NewCounted(w)
	for _, p := range pages {
		if err := c.ask(ctx, p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Counted) ask(ctx context.Context, p Page) error {
	status, err := p.Status(ctx)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoAnswer, p.Name(), err)
	}
	var past admin.Past
	q := url.Values{
		"series": {wantedSeries}, "from": {c.Window.From.UTC().Format(time.RFC3339)}, "to": {c.Window.To.UTC().Format(time.RFC3339)},
		"step": {c.Window.Step.String()},
	}
	err = p.Get(ctx, "/api/history?"+q.Encode(), func(body io.Reader) error { return json.NewDecoder(body).Decode(&past) })
	if errors.Is(err, remote.ErrNotFound) {
		return fmt.Errorf("%s: %w: its version of cinch is too old for /api/history", p.Name(), ErrNothing)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNoAnswer, p.Name(), err)
	}
	c.Sources = append(c.Sources, Source{p.Name(), past.Oldest, past.Path})
	stores := map[string]bool{}
	for _, g := range status.Gateways { // histories of older versions don't say it
		stores[g.Name] = gateway.StoresValues(g.Protocol)
	}
	for _, s := range past.Series { // gateways that are gone or renamed
		if s.Name == "stores_values" && slices.ContainsFunc(s.Values, func(v *float64) bool { return v != nil && *v > 0 }) {
			stores[s.Gateway] = true
		}
	}
	for _, s := range past.Series {
		c.take(s, stores[s.Gateway])
	}
	return nil
}

// take adds a series. readsSave reports whether its gateway is for a store.
func (c *Counted) take(s admin.PastSeries, readsSave bool) {
	const micro = 1e-6
	into := func(to []float64, scale float64) {
		for i, v := range s.Values {
			if v != nil && i < len(to) {
				to[i] += *v * scale
			}
		}
	}
	switch s.Name {
	case "raw_bytes":
		into(c.row(s.Gateway, s.Rule).raw, 1)
	case "stored_bytes":
		into(c.row(s.Gateway, s.Rule).stored, 1)
	case "seal_cpu_us":
		into(c.row(s.Gateway, s.Rule).cpu, micro)
	case "sealed_values":
		into(c.row(s.Gateway, s.Rule).sealed, 1)
	case "open_cpu_us":
		into(c.row(s.Gateway, reads).cpu, micro)
	case "opened_raw_bytes":
		if readsSave {
			into(c.row(s.Gateway, reads).raw, 1)
		}
	case "opened_stored_bytes":
		if readsSave {
			into(c.row(s.Gateway, reads).stored, 1)
		}
	case "training_cpu_us":
		into(c.training, micro)
	case "client_received_bytes", "client_sent_bytes":
		into(c.wire(s.Gateway).in, 1)
	case "upstream_received_bytes", "upstream_sent_bytes":
		into(c.wire(s.Gateway).out, 1)
	}
}
