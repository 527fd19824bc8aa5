package http

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/cinch-layer/cinch/test/testenv"
)

// receiver is a remote-write receiver that keeps all samples by series.
type receiver struct {
	mu      sync.Mutex
	samples map[string][]sample
	faults  []string
	codings map[string]int
	answers []int // statuses of the next responses; then 204
	told    map[int]int
}

type sample struct {
	at    int64
	value float64
}

func newReceiver() *receiver {
	return &receiver{samples: map[string][]sample{}, codings: map[string]int{}, told: map[int]int{}}
}

// ServeHTTP responds with the next status of answers. It does not keep samples of requests whose sender is
// told to retry.
func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	status := http.StatusNoContent
	if len(v.answers) > 0 {
		status, v.answers = v.answers[0], v.answers[1:]
	}
	v.told[status]++
	v.codings[r.Header.Get("Content-Encoding")]++
	if status == http.StatusNoContent {
		v.keep(r.Header, body)
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
}

func (v *receiver) keep(h http.Header, body []byte) {
	if h.Get("Content-Type") != "application/x-protobuf" || h.Get("X-Prometheus-Remote-Write-Version") != "0.1.0" {
		v.faults = append(v.faults, fmt.Sprint(h))
	}
	plain, err := decode(h.Get("Content-Encoding"), body)
	if err == nil {
		err = v.parse(plain)
	}
	if err != nil {
		v.faults = append(v.faults, err.Error())
	}
}

var errWire = errors.New("not protobuf")

// fields calls f for each field of a protobuf message.
func fields(b []byte, f func(number uint64, bytes []byte, bits uint64) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return errWire
		}
		b = b[n:]
		var bits uint64
		var part []byte
		switch key & 7 {
		case 0:
			bits, n = binary.Uvarint(b)
		case 1:
			if n = 8; len(b) >= n {
				bits = binary.LittleEndian.Uint64(b)
			}
		case 2:
			var size uint64
			if size, n = binary.Uvarint(b); n > 0 && size <= uint64(len(b)-n) {
				part = b[n : n+int(size)]
				n += int(size)
			} else {
				n = -1
			}
		default:
			return errWire
		}
		if n <= 0 || n > len(b) {
			return errWire
		}
		b = b[n:]
		if err := f(key>>3, part, bits); err != nil {
			return err
		}
	}
	return nil
}

// parse adds the samples of a prometheus.WriteRequest; see test/rig/remotewrite for its fields.
func (v *receiver) parse(request []byte) error {
	return fields(request, func(number uint64, series []byte, _ uint64) error {
		if number != 1 {
			return nil // the field is metadata
		}
		var labels strings.Builder
		return fields(series, func(number uint64, part []byte, _ uint64) error {
			switch number {
			case 1:
				return fields(part, func(_ uint64, text []byte, _ uint64) error {
					_, err := fmt.Fprintf(&labels, "%q ", text)
					return err
				})
			case 2:
				return v.sample(labels.String(), part)
			}
			return nil
		})
	})
}

func (v *receiver) sample(series string, part []byte) error {
	var s sample
	err := fields(part, func(number uint64, _ []byte, bits uint64) error {
		if number == 1 {
			s.value = math.Float64frombits(bits)
		} else {
			s.at = int64(bits)
		}
		return nil
	})
	v.samples[series] = append(v.samples[series], s)
	return err
}

// counter is a scrape target that returns a number one higher at each scrape. It records which numbers were
// returned.
type counter struct {
	mu sync.Mutex
	n  int
}

const counterSeries = 200

func (c *counter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for i := range counterSeries {
		_, _ = fmt.Fprintf(w, "scrapes{series=\"%d\",text=\"a label as long as they are\"} %d\n", i, c.n)
	}
}

func (c *counter) given() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

const prometheusConfig = `
global: {scrape_interval: 500ms}
scrape_configs:
  - {job_name: counter, static_configs: [{targets: [%q]}]}
remote_write:
  - url: http://%s/api/v1/push
    queue_config: {max_shards: 1, min_shards: 1, batch_send_deadline: 200ms, min_backoff: 30ms, max_backoff: 200ms, retry_on_http_429: true}
`

// Every sample that Prometheus has written reaches the receiver, in order, whatever the receiver answers
// and while gateways are killed and replaced.
func TestRemoteWrite(t *testing.T) {
	testenv.Full(t)
	testenv.Program(t, "prometheus")
	v, target := newReceiver(), &counter{}
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + serve(t, v) + "?upstream_encodings=zstd"})
	if !strings.Contains(strings.Join(commandLine(t, g.Pid()), " "), "?upstream_encodings=zstd") {
		t.Fatal("the gateway is not told by its command line")
	}
	testenv.Prometheus(t, fmt.Sprintf(prometheusConfig, serve(t, target), g.Addr), "")
	kills := 4
	if *long {
		kills = 40
	}
	for i := range kills {
		waitFor(t, v, target.given()+2)
		v.answer([]int{500, 429, 503, 500}[i%4:]...)
		g.Kill()
		time.Sleep(300 * time.Millisecond)
		if err := g.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, v, target.given()+3)
	v.check(t, "zstd")
}

func commandLine(t *testing.T, pid int) []string {
	t.Helper()
	return strings.Split(testenv.Command(t, "cat", fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00")
}

func (v *receiver) answer(statuses ...int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers = statuses
}

// waitFor waits until the samples of a scrape have been received.
func waitFor(t *testing.T, v *receiver, scrape int) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprint("scrape ", scrape, " arrives"), func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		for name, s := range v.samples {
			if strings.Contains(name, `"scrapes"`) && s[len(s)-1].value >= float64(scrape) {
				return true
			}
		}
		return false
	})
}

// check compares every series of the counter: each number must arrive once, or again if its sender could
// not know that it had arrived. Some requests must have used the coding.
func (v *receiver) check(t *testing.T, coding string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.faults {
		t.Error(f)
	}
	series, again := 0, 0
	for name, all := range v.samples {
		if !strings.Contains(name, `"scrapes"`) {
			continue
		}
		series++
		// Missed counts scrapes that have timed out on a busy machine, which Prometheus marks by NaN.
		highest, missed := 0.0, 0.0
		for _, s := range all {
			switch {
			case s.value > highest && s.value <= highest+1+missed:
				highest, missed = s.value, 0
			case math.IsNaN(s.value):
				missed++
			case s.value <= highest && s.value > highest-20:
				again++
			default:
				t.Fatalf("%s: %v behind %v", name, s.value, highest)
			}
		}
	}
	t.Logf("%d series, %d samples came again; codings %v; answers %v", series, again, v.codings, v.told)
	if series != counterSeries || v.codings[coding] == 0 || !slices.Equal(slices.Sorted(maps.Keys(v.told)), []int{204, 429, 500, 503}) {
		t.Errorf("%d series, %v, %v", series, v.codings, v.told)
	}
}

// A receiver's answer to a write reaches the sender unchanged.
func TestRemoteWriteAnswers(t *testing.T) {
	v := newReceiver()
	upstream := serve(t, v)
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + upstream + "?upstream_encodings=zstd"})
	body := snappy.Encode(nil, text)
	for _, status := range []int{204, 200, 400, 413, 415, 422, 429, 500, 502, 503} {
		var said []string
		for _, addr := range []string{upstream, g.Addr} {
			v.answer(status, status)
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/push", strings.NewReader(string(body)))
			r.Header.Set("Content-Encoding", "snappy")
			resp, err := client(false).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			resp.Header.Del("Date")
			said = append(said, fmt.Sprint(resp.Status, resp.Header, string(text), err))
		}
		if said[0] != said[1] {
			t.Errorf("direct %s\nthrough %s", said[0], said[1])
		}
	}
}
