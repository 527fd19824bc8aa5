package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/observe/admin/remote"
	"github.com/cinch-layer/cinch/internal/observe/history"
)

var start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

const (
	days   = 30
	rate   = 5e6 // bytes per second before
	grown  = 1.45
	factor = 0.62 // of compressed values
	sealed = 0.85 // share of the bytes
)

// month serves theMonth.
func month(t *testing.T) (page Page, raw, stored float64) {
	t.Helper()
	m := theMonth()
	o := admin.Options{Metrics: &gateway.Metrics{Gateways: []*gateway.Stats{gateway.NewStats("orders", "grpc")}}, History: m.history, Access: admin.Access{Open: true}}
	server := httptest.NewServer(admin.New(o).Handler())
	t.Cleanup(server.Close)
	p, err := remote.Open(server.URL, remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p, m.raw, m.stored
}

// gatewaysMonth holds the history of a month of a gateway, and the raw and stored bytes that its rule counted.
type gatewaysMonth struct {
	history     *history.History
	raw, stored float64
}

// theMonth makes a month of a gateway: by day and night, with noise; in the middle traffic grows by 45 %, and
// compression is turned on. Tests only read it.
var theMonth = sync.OnceValue(func() (m gatewaysMonth) {
	m.history = history.Open(history.Options{})
	at, random := start, uint64(42)
	var in, out, count int64
	for i := range int(days * 24 * time.Hour / history.Interval) {
		random = random*6364136223846793005 + 1442695040888963407
		noise := 0.8 + 0.4*float64(random>>40)/(1<<24)
		came := rate * 10 * noise * (1 + 0.5*math.Sin(2*math.Pi*float64(i)/8640))
		s := []history.Sample{}
		add := func(name, rule string, v int64) {
			s = append(s, history.Sample{Series: history.Series{Name: name, Gateway: "orders", Rule: rule}, Value: v})
		}
		if i < days*8640/2 {
			in, out = in+int64(came), out+int64(came)
		} else {
			came *= grown
			part := sealed * (1 + 0.1*math.Sin(float64(i)/5000) + 0.2*(noise-1))
			sent := came*part*factor + came*(1-part)
			m.raw, m.stored, count = m.raw+came, m.stored+sent, count+1
			in, out = in+int64(came), out+int64(sent)
		}
		add("client_received_bytes", "", in)
		add("upstream_sent_bytes", "", out)
		add("raw_bytes", "carts", int64(m.raw))
		add("stored_bytes", "carts", int64(m.stored))
		add("sealed_values", "carts", count)
		add("seal_cpu_us", "carts", 100*count)
		m.history.Add(at, s)
		at = at.Add(history.Interval)
	}
	return m
})

func prices(t *testing.T) price.Table {
	t.Helper()
	p, err := price.Default()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func about(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if math.Abs(got-want) > relative*math.Abs(want) || math.IsNaN(got) {
		t.Errorf("%s: %v, want %v within %v %%", what, got, want, 100*relative)
	}
}

// In a month traffic grows by 45 % in the middle, when compression is turned on: the bytes sent are about the
// same after it as before, and the report states the saving within 1 %, both as counted and on the wire.
func TestMonthThatGrows(t *testing.T) {
	page, raw, stored := month(t)
	c, err := Collect(context.Background(), []Page{page}, NewWindow(start, start.AddDate(0, 0, days)))
	if err != nil {
		t.Fatal(err)
	}
	bill := 1000.0
	r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}, Bill: &bill})
	if err != nil {
		t.Fatal(err)
	}
	if r.Before == nil || r.WireSaving == nil {
		t.Fatal("no time before")
	}
	about(t, "the raw graph shows nothing", r.After.OutPerDay, r.Before.OutPerDay, 0.03)
	about(t, "traffic grows", r.After.InPerDay/r.Before.InPerDay, grown, 0.01)
	saving := 1 - stored/raw
	about(t, "saving", r.Total.Saving.Value, saving, 0.01)
	about(t, "saving by the wire", r.WireSaving.Value, saving, 0.01)
	about(t, "bytes", r.Total.SavedBytes, raw-stored, 0.01)
	about(t, "money", r.Total.Traffic, (raw-stored)/1e9*0.02*2/3, 0.01)
	about(t, "CPU", r.Total.CPUSeconds, 0.0001*days*8640/2, 0.01)
	about(t, "a month", r.Total.NetMonth, r.Total.Net*price.SecondsPerMonth/(days*86400/2), 0.01)
	about(t, "the bill without", r.Bill.Without, 1000*raw/stored, 0.01)
	if s := r.WireSaving; s.Low == nil || *s.Low > saving || *s.High < saving || *s.High-*s.Low > 0.02 {
		t.Errorf("interval %+v", s)
	}
	half := start.AddDate(0, 0, days/2)
	if d := r.After.From.Sub(half).Abs(); d > c.Window.Step {
		t.Errorf("turned on at %s, found %s", half, r.After.From)
	}
	graph := r.mainGraph().Lines[0] // 100 without compression, and lower by the saved share with it
	for _, line := range graph.Series {
		for _, p := range line.Points {
			want := 100.0
			if line.Class == "after" && p.X > graph.Moment.X {
				want = 100 * stored / raw
			}
			if p.X != graph.Moment.X && math.Abs(p.Y-want) > 5 {
				t.Fatalf("%s at %v h: %v, want %v", line.Class, p.X, p.Y, want)
			}
		}
	}
	var text bytes.Buffer
	if err := r.Print(&text); err != nil || !strings.Contains(text.String(), "carts") || !strings.Contains(text.String(), "$1,000") {
		t.Errorf("%v\n%s", err, &text)
	}
	if doc, err := json.Marshal(r); err != nil || !bytes.Contains(doc, []byte(`"wire_saving":{"value":0.3`)) {
		t.Errorf("%v: %s", err, doc)
	}
}

// Compression that was always on has no earlier period to compare with, and a period without counts is an error.
func TestWithoutBefore(t *testing.T) {
	page, _, _ := month(t)
	on := start.AddDate(0, 0, days/2).Add(time.Hour)
	c, err := Collect(context.Background(), []Page{page}, NewWindow(on, on.AddDate(0, 0, 2)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
	if err != nil || r.Before != nil || r.WireSaving != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	about(t, "saving", r.Total.Saving.Value, sealed*(1-factor), 0.1)
	r, err = New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}, Since: on.AddDate(0, 0, 1)})
	if err != nil || r.Before == nil || !r.After.From.Equal(on.AddDate(0, 0, 1)) {
		t.Errorf("since a time that is given: %+v, %v", r, err)
	}
	c, err = Collect(context.Background(), []Page{page}, NewWindow(start, start.AddDate(0, 0, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, Options{Prices: prices(t)}); !errors.Is(err, ErrNothing) {
		t.Errorf("before it was turned on: %v", err)
	}
}

// fake is a page of two gateways, for a store and for messages.
type fake struct{ err error }

func (fake) Name() string { return "fake" }

func (f fake) Status(context.Context) (st admin.Status, err error) {
	for _, p := range []string{"redis", "grpc"} {
		g := admin.Gateway{}
		g.Name, g.Protocol = p, p
		st.Gateways = append(st.Gateways, g)
	}
	return st, nil
}

func (f fake) Get(_ context.Context, _ string, read func(io.Reader) error) error {
	if f.err != nil {
		return f.err
	}
	return read(strings.NewReader(`{"series":[
		{"name":"raw_bytes","gateway":"redis","rule":"r","values":[100,null,100]},{"name":"stored_bytes","gateway":"redis","rule":"r","values":[50,null,50]},
		{"name":"opened_raw_bytes","gateway":"redis","values":[1000]},{"name":"opened_stored_bytes","gateway":"redis","values":[400]},
		{"name":"opened_raw_bytes","gateway":"grpc","values":[9000]},{"name":"opened_stored_bytes","gateway":"grpc","values":[1]},
		{"name":"open_cpu_us","gateway":"grpc","values":[2000000,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]},{"name":"unknown","gateway":"x","values":[1]}]}`))
}

// Reads from a store cross the wire compressed too; a decompressed message was counted where it was
// compressed. Two pages add up.
func TestReads(t *testing.T) {
	w := Window{start, start.Add(time.Hour), 10 * time.Minute}
	c, err := Collect(context.Background(), []Page{fake{}, fake{}}, w)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
	if err != nil {
		t.Fatal(err)
	}
	about(t, "raw", r.Total.RawBytes, 2*(200+1000), 1e-9)
	about(t, "stored", r.Total.StoredBytes, 2*(100+400), 1e-9)
	about(t, "cpu", r.Total.CPUSeconds, 4, 1e-4)
	if len(r.Rows) != 3 || r.Rows[0].Rule != reads {
		t.Errorf("%+v", r.Rows)
	}
	for _, broken := range []error{io.ErrUnexpectedEOF, remote.ErrToken} {
		if _, err := Collect(context.Background(), []Page{fake{broken}}, w); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	if _, err := Collect(context.Background(), []Page{fake{remote.ErrNotFound}}, w); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}

// Training dictionaries is in a line, and a field, of its own: it is no part of the CPU by rule, nor of the money.
func TestTrainingCPU(t *testing.T) {
	const values = `{"name":"raw_bytes","gateway":"g","rule":"r","values":[100,100]},{"name":"stored_bytes","gateway":"g","rule":"r","values":[50,50]}`
	w := Window{start, start.Add(time.Hour), 30 * time.Minute}
	for series, want := range map[string]float64{"": 0, `,{"name":"training_cpu_us","values":[1500000,2000000]}`: 7} {
		page := past(`{"series":[` + values + series + `]}`)
		c, err := Collect(t.Context(), []Page{page, page}, w)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
		if err != nil {
			t.Fatal(err)
		}
		about(t, "training", r.TrainingCPU, want, 1e-9)
		about(t, "by rule", r.Total.CPUSeconds, 0, 1e-9)
		var text bytes.Buffer
		if err := r.Print(&text); err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(r)
		if err != nil || !bytes.Contains(doc, fmt.Appendf(nil, `"training_cpu_seconds":%g`, want)) {
			t.Errorf("%v: %s", err, doc)
		}
		const line = "Training dictionaries took 7 s of CPU since 2026-10-01 00:00"
		for _, got := range []string{text.String(), html(t, c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})} {
			if strings.Contains(got, line) != (want > 0) {
				t.Errorf("%v s: %s", want, got)
			}
		}
	}
}

// past is a page with gateways in its history that it has no more.
type past string

func (past) Name() string { return "past" }

func (past) Status(context.Context) (st admin.Status, err error) { return st, nil }

func (p past) Get(_ context.Context, _ string, read func(io.Reader) error) error {
	return read(strings.NewReader(string(p)))
}

// The history shows for which gateways reads save bytes, even if a gateway has another name now.
func TestReadsOfRenamedGateways(t *testing.T) {
	page := past(`{"series":[
		{"name":"raw_bytes","gateway":"redis","rule":"r","values":[100]},{"name":"stored_bytes","gateway":"redis","rule":"r","values":[50]},
		{"name":"opened_raw_bytes","gateway":"redis","values":[1000]},{"name":"opened_stored_bytes","gateway":"redis","values":[400]},
		{"name":"stores_values","gateway":"redis","values":[null,1]},
		{"name":"opened_raw_bytes","gateway":"grpc","values":[9000]},{"name":"opened_stored_bytes","gateway":"grpc","values":[1]},
		{"name":"stores_values","gateway":"grpc","values":[0,null]}]}`)
	c, err := Collect(t.Context(), []Page{page}, Window{start, start.Add(time.Hour), 30 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
	if err != nil {
		t.Fatal(err)
	}
	about(t, "raw", r.Total.RawBytes, 100+1000, 1e-9)
	about(t, "stored", r.Total.StoredBytes, 50+400, 1e-9)
}

// Compression was on if a store's values are read compressed, whenever the first one is written.
func TestTurnedOn(t *testing.T) {
	w := Window{start, start.Add(time.Hour), 10 * time.Minute}
	for _, c := range []struct {
		name               string
		in, sealed, opened []float64
		want               int
	}{
		{"nothing", []float64{1, 1, 1, 1, 1, 1}, nil, nil, 0},
		{"always on", []float64{1, 1, 1, 1, 1, 1}, []float64{1, 1, 1, 1, 1, 1}, nil, 0},
		{"written later", []float64{1, 1, 1, 1, 1, 1}, []float64{0, 0, 0, 1, 1, 1}, []float64{9, 9, 9, 9, 9, 9}, 0},
		{"written little at first", []float64{1, 1, 1, 1, 1, 1}, []float64{1, 9, 9, 9, 9, 9}, nil, 0},
		{"no traffic before", []float64{0, 0, 1, 1, 1, 1}, []float64{0, 0, 1, 1, 1, 1}, nil, 0},
		{"only read", []float64{1, 1, 1, 1, 1, 1}, nil, []float64{0, 0, 5, 9, 9, 9}, 2},
		{"turned on", []float64{1, 1, 1, 1, 1, 1}, []float64{0, 0, 5, 9, 9, 9}, []float64{0, 0, 0, 9, 9, 9}, 2},
		{"turned on late in a step", []float64{1, 1, 1, 1, 1, 1}, []float64{0, 0, 4, 9, 9, 9}, []float64{0, 0, 0, 9, 9, 9}, 3},
		{"read late in a step", []float64{1, 1, 1, 1, 1, 1}, []float64{0, 0, 0, 0, 9, 9}, []float64{0, 0, 4, 9, 9, 9}, 3},
		{"in the last step", []float64{1, 1, 1, 1, 1, 1}, []float64{0, 0, 0, 0, 0, 1}, nil, 5},
	} {
		counted := NewCounted(w)
		addTo(counted.wire("cache").in, c.in)
		addTo(counted.row("cache", "r").sealed, c.sealed)
		addTo(counted.row("cache", reads).raw, c.opened)
		addTo(counted.wire("other").in, c.in)
		for _, gateway := range []string{"", "cache"} {
			if got := counted.turnedOn(gateway); got != c.want {
				t.Errorf("%s, gateway %q: %d, want %d", c.name, gateway, got, c.want)
			}
		}
		if got := counted.turnedOn("other"); got != 0 {
			t.Errorf("%s: of a gateway without compression: %d", c.name, got)
		}
	}
}

func TestShareOf(t *testing.T) {
	if s := shareOf(nil, nil); s.Value != 1 || s.Low != nil {
		t.Errorf("%+v", s)
	}
	if s := shareOf([]float64{1, 0, 1}, []float64{0.5, 0, 0.5}); s.Value != 0.5 || s.Low != nil {
		t.Errorf("too few samples: %+v", s)
	}
	steady := make([]float64, 100)
	for i := range steady {
		steady[i] = 2
	}
	if s := shareOf(steady, steady); s.Low == nil || *s.High-*s.Low > 1e-9 {
		t.Errorf("%+v", s)
	}
	for freedom, want := range map[int]float64{4: 2.776, 9: 2.262, 29: 2.045} {
		about(t, "student", student(freedom), want, 0.005)
	}
	if size(1.5e12) != "1.36 TiB" || size(12) != "12 B" {
		t.Error(size(1.5e12), size(12))
	}
}

// Rates are over the period that was counted, not over the requested one.
func TestYoungGateway(t *testing.T) {
	page, _, _ := month(t)
	c, err := Collect(t.Context(), []Page{page}, NewWindow(start.Add(-60*24*time.Hour), start.Add(days*24*time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if grew := r.After.InPerDay / r.Before.InPerDay; math.Abs(grew-grown) > 0.05 {
		t.Errorf("traffic grew %.2f times: %+v, then %+v", grew, r.Before, r.After)
	}
	if r.Before.From.Before(start.Add(-time.Hour)) {
		t.Errorf("counted since %v", r.Before.From)
	}
}
