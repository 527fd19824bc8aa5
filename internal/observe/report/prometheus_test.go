package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"

	"github.com/cinch-layer/cinch/internal/observe/client"
	"github.com/cinch-layer/cinch/test/testenv"
)

// metricsOfMonth returns the month with growing traffic as stored by Prometheus. Two instances are scraped every
// 4 min, and one of them is restarted from time to time. A rule is new in the second half.
func metricsOfMonth() (openMetrics []byte, raw, stored float64) {
	const every, processLife = 4 * time.Minute, 50 * time.Hour
	instances := map[string]*scraped{"a:9470": {life: processLife, began: start.Add(-time.Hour)}, "b:9470": {life: 1e6 * time.Hour, began: start.Add(-time.Hour)}}
	families := map[string]*bytes.Buffer{}
	for at, end := start.Add(-time.Hour), start.AddDate(0, 0, days); !at.After(end); at = at.Add(every) {
		on := at.After(start.AddDate(0, 0, days/2))
		for name, p := range instances {
			if at.Sub(p.began) > p.life {
				*p = scraped{life: p.life, began: at.Add(-every / 2), random: p.random}
			}
			p.random = math.Mod(p.random*997+0.123, 1)
			came := rate * every.Seconds() * (0.8 + 0.4*p.random)
			sent := came
			if on {
				came *= grown
				sent = came*sealed*factor + came*(1-sealed)
				p.raw, p.stored, p.sealed = p.raw+came, p.stored+sent, p.sealed+1
				raw, stored = raw+came, stored+sent
			}
			p.in, p.out = p.in+came, p.out+sent
			p.scrape(families, name, at)
		}
	}
	return joined(families), raw, stored
}

// scraped is a process and its counters.
type scraped struct {
	life                                 time.Duration
	began                                time.Time
	in, out, raw, stored, sealed, random float64
}

func (p *scraped) scrape(families map[string]*bytes.Buffer, instance string, at time.Time) {
	add := func(family, suffix, labels string, v float64) {
		b := families[family]
		if b == nil {
			b = &bytes.Buffer{}
			families[family] = b
		}
		fmt.Fprintf(b, "%s%s{instance=%q,job=\"cinch\"%s} %.0f %d\n", family, suffix, instance, labels, v, at.Unix())
	}
	add("cinch_received_bytes", "_total", `,gateway="orders",side="client"`, p.in)
	add("cinch_sent_bytes", "_total", `,gateway="orders",side="upstream"`, p.out)
	if p.sealed > 0 {
		const rule = `,gateway="orders",rule="carts",codec="zstd"`
		add("cinch_value_raw_bytes", "_total", rule, p.raw)
		add("cinch_value_stored_bytes", "_total", rule, p.stored)
		add("cinch_values_sealed", "_total", rule, p.sealed)
	}
	add("process_start_time_seconds", "", "", float64(p.began.Unix()))
}

// joined returns an OpenMetrics text of families.
func joined(families map[string]*bytes.Buffer) []byte {
	var all bytes.Buffer
	for name, b := range families {
		kind := "counter"
		if name == "process_start_time_seconds" {
			kind = "gauge"
		}
		fmt.Fprintf(&all, "# TYPE %s %s\n", name, kind)
		all.Write(b.Bytes())
	}
	all.WriteString("# EOF\n")
	return all.Bytes()
}

// The month with growing traffic from a real Prometheus: restarts, a series that begins in the middle, two
// instances.
func TestMonthFromPrometheus(t *testing.T) {
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "month.txt")
	text, raw, stored := metricsOfMonth()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// One block: for blocks of the usual two hours promtool reads everything 360 times.
	testenv.Command(t, testenv.Program(t, "promtool"), "tsdb", "create-blocks-from", "--max-block-duration=1536h", "openmetrics", file, data)
	server := testenv.Prometheus(t, "global: {}\n", data, "--storage.tsdb.retention.time=3650d")
	p, err := OpenPrometheus(server.URL, `job="cinch"`, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := CollectPrometheus(t.Context(), p, NewWindow(start, start.AddDate(0, 0, days)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}})
	if err != nil {
		t.Fatal(err)
	}
	saving := 1 - stored/raw
	t.Logf("saving %.5f, stated %.5f and %.5f; raw bytes %.5g, stated %.5g", saving, r.Total.Saving.Value, r.WireSaving.Value, raw, r.Total.RawBytes)
	about(t, "saving", r.Total.Saving.Value, saving, 0.001)
	about(t, "saving by the wire", r.WireSaving.Value, saving, 0.001)
	about(t, "bytes", r.Total.RawBytes, raw, 0.001)
	about(t, "traffic grows", r.After.InPerDay/r.Before.InPerDay, grown, 0.01)
	if half := start.AddDate(0, 0, days/2); r.After.From.Sub(half).Abs() > c.Window.Step {
		t.Errorf("turned on at %s, found %s", half, r.After.From)
	}
	if text := html(t, c, Options{Prices: prices(t), Layout: price.Layout{Zones: 3}}); !strings.Contains(text, "2 instances") || !strings.Contains(text, plain(saving)) {
		t.Error("the page lacks instances or saving")
	}
	other, err := OpenPrometheus(server.URL, `{job="other"}`, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CollectPrometheus(t.Context(), other, c.Window); !errors.Is(err, ErrNothing) {
		t.Errorf("of another job: %v", err)
	}
}

// scripted answers like Prometheus, from samples in memory: each series is a list of times in seconds after
// start, and values.
type scripted map[string][][2]float64

func (s scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var result []map[string]any
	query := r.PostFormValue("query")
	var from, to, step float64
	for name, into := range map[string]*float64{"start": &from, "end": &to, "step": &step, "time": &to} {
		_, _ = fmt.Sscan(r.PostFormValue(name), into)
	}
	for labels, samples := range s {
		metric := map[string]string{}
		for _, l := range strings.Split(labels, ",") {
			name, value, _ := strings.Cut(l, "=")
			metric[name] = value
		}
		var values [][2]any
		put := func(at float64, v float64) { values = append(values, [2]any{at, fmt.Sprint(v)}) }
		if last, ok := strings.CutPrefix(query, "last_over_time("); ok {
			if name, _, _ := strings.Cut(last, "{"); name != metric["__name__"] {
				continue
			}
			for at := from; at <= to; at += step {
				for i := len(samples) - 1; i >= 0; i-- {
					if when := float64(start.Unix()) + samples[i][0]; when <= at && when > at-300 {
						put(at, samples[i][1])
						break
					}
				}
			}
		} else {
			var window float64
			_, _ = fmt.Sscanf(query[strings.LastIndex(query, "[")+1:], "%fms", &window)
			for _, one := range samples {
				if when := float64(start.Unix()) + one[0]; when <= to && when > to-window/1000 {
					put(when, one[1])
				}
			}
		}
		if len(values) > 0 {
			result = append(result, map[string]any{"metric": metric, "values": values})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"result": result}})
}

func (s scripted) collect(t *testing.T, w Window) *Counted {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	p, err := OpenPrometheus(server.URL, "", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := CollectPrometheus(t.Context(), p, w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	rawSeries    = "__name__=cinch_value_raw_bytes_total,instance=a,gateway=g,rule=r,codec=zstd"
	startSeries  = "__name__=process_start_time_seconds,instance=a"
	openedSeries = "__name__=cinch_opened_raw_bytes_total,instance=a,gateway=g,codec=zstd"
)

// The growth of counters over restarts, missed scrapes and first samples.
func TestGrowth(t *testing.T) {
	w := Window{start, start.Add(25 * time.Minute), 10 * time.Minute} // the last step is a half
	began, later := float64(start.Unix()-86400), float64(start.Unix()+700)
	for name, c := range map[string]struct {
		s    scripted
		want []float64
	}{
		"grows":               {scripted{startSeries: {{0, began}, {600, began}, {1200, began}, {1500, began}}, rawSeries: {{0, 100}, {600, 150}, {1200, 170}, {1500, 171}}}, []float64{50, 20, 1}},
		"what was before":     {scripted{startSeries: {{-60, began}, {600, began}}, rawSeries: {{-60, 1e9}, {600, 1e9 + 7}}}, []float64{7, 0, 0}},
		"a new series":        {scripted{startSeries: {{0, began}, {600, began}, {1200, began}}, rawSeries: {{1190, 70}}}, []float64{0, 70, 0}},
		"missed scrapes":      {scripted{startSeries: {{0, began}, {1500, began}}, rawSeries: {{0, 100}, {1500, 400}}}, []float64{0, 0, 300}},
		"a restart":           {scripted{startSeries: {{0, began}, {600, began}, {720, later}, {1200, later}}, rawSeries: {{0, 100}, {600, 150}, {690, 160}, {720, 5}, {1200, 40}}}, []float64{50, 50, 0}},
		"it overtakes":        {scripted{startSeries: {{0, began}, {600, began}, {720, later}, {1200, later}}, rawSeries: {{0, 100}, {600, 150}, {690, 160}, {720, 5}, {1200, 900}}}, []float64{50, 910, 0}},
		"it has more at once": {scripted{startSeries: {{0, began}, {600, began}, {690, began}, {720, later}, {1200, later}}, rawSeries: {{0, 100}, {600, 150}, {690, 160}, {720, 160}, {1200, 170}}}, []float64{50, 180, 0}},
		"the clock is set":    {scripted{startSeries: {{0, began}, {600, began}, {720, began + 2}, {1200, began + 2}}, rawSeries: {{0, 100}, {600, 150}, {690, 155}, {720, 160}, {1200, 200}}}, []float64{50, 50, 0}},
		"unseen before it":    {scripted{startSeries: {{0, began}, {600, began}, {720, later}, {1200, later}}, rawSeries: {{0, 100}, {600, 150}, {720, 150}, {1200, 170}}}, []float64{50, 170, 0}},
		"restart unsaid":      {scripted{rawSeries: {{0, 100}, {600, 150}, {720, 5}, {1200, 40}}}, []float64{50, 40, 0}},
		"an old one is found": {scripted{startSeries: {{700, began}, {1200, began}}, rawSeries: {{700, 1e9}, {1200, 1e9 + 3}}}, []float64{0, 3, 0}},
		"a new one is found":  {scripted{startSeries: {{720, later}, {1200, later}}, rawSeries: {{720, 30}, {1200, 80}}}, []float64{0, 80, 0}},
		"reads of a store":    {scripted{startSeries: {{0, began}, {600, began}}, rawSeries: {{0, 1}}, openedSeries: {{0, 5}, {600, 25}}, "__name__=cinch_gateway_info,instance=a,gateway=g,protocol=redis": {{600, 1}}}, []float64{20, 0, 0}},
		"of no store":         {scripted{startSeries: {{0, began}, {600, began}}, rawSeries: {{0, 1}}, openedSeries: {{0, 5}, {600, 25}}}, []float64{0, 0, 0}},
	} {
		counted, got := c.s.collect(t, w), make([]float64, 3)
		for _, u := range counted.rows {
			addTo(got, u.raw)
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-6 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

// The CPU of training dictionaries is of processes, so its series has no gateway.
func TestTrainingCPUFromPrometheus(t *testing.T) {
	w := Window{start, start.Add(20 * time.Minute), 10 * time.Minute}
	began := float64(start.Unix() - 86400)
	series := scripted{startSeries: {{0, began}, {600, began}, {1200, began}}, rawSeries: {{0, 1}}}
	for _, instance := range []string{"a", "b"} {
		series["__name__=cinch_dictionary_training_cpu_seconds_total,instance="+instance] = [][2]float64{{0, 40}, {600, 41.5}, {1200, 43}}
	}
	if got := sum(series.collect(t, w).training); math.Abs(got-6) > 1e-6 {
		t.Errorf("%v s, want 6", got)
	}
}

// A server that is not Prometheus, or requires a password, is reported as such.
func TestNoPrometheus(t *testing.T) {
	w := NewWindow(start, start.Add(time.Hour))
	for name, c := range map[string]struct {
		status int
		text   string
		want   error
	}{
		"no JSON":     {200, "<html>", ErrAnswer},
		"other JSON":  {200, `{"data":[]}`, ErrAnswer},
		"not found":   {404, "404 page not found", ErrAnswer},
		"bad query":   {400, `{"status":"error","errorType":"bad_data","error":"parse error"}`, ErrAnswer},
		"no password": {401, "Unauthorized", ErrAccess},
		"bad sample":  {200, `{"status":"success","data":{"result":[{"metric":{},"values":[[1,"x"]]}]}}`, ErrAnswer},
		"nothing":     {200, `{"status":"success","data":{"result":[]}}`, ErrNothing},
		"no labels":   {200, `{"status":"success","data":{"result":[{"values":[[1,"1"]]}]}}`, ErrAnswer},
		"not finite":  {200, `{"status":"success","data":{"result":[{"metric":{},"values":[[1,"+Inf"]]}]}}`, ErrAnswer},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.text))
		}))
		p, err := OpenPrometheus(strings.Replace(server.URL, "http://", "http://user:secret@", 1), "", client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = CollectPrometheus(context.Background(), p, w)
		if !errors.Is(err, c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
