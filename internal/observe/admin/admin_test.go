package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/test/testenv"
)

// sampleOptions describes two gateways, one of which has been busy.
func sampleOptions(t *testing.T) Options {
	t.Helper()
	s := gateway.NewStats("cache", "redis")
	s.Sealed("menus", codec.Zstd, 4000, 1000, time.Millisecond)
	s.Left("menus", "no_gain", 100)
	s.Sealed("yesterday's", codec.LZ4, 10, 5, time.Millisecond)
	s.Opened(codec.Zstd, 1000, 4000, time.Millisecond)
	s.Error("damaged")
	requests, replies := memory.NewBudget(1<<20), memory.NewBudget(2<<20)
	requests.TryAcquire(100)
	m := &gateway.Metrics{
		Gateways: []*gateway.Stats{s, gateway.NewStats("quiet", "redis")},
		Requests: requests,
		Replies:  replies,
		Codec:    func() (int, int) { return 1, 2 },
		Version:  "1.2.3", Revision: "abc<def",
	}
	reg := prometheus.NewRegistry()
	if err := m.Register(reg); err != nil {
		t.Fatal(err)
	}
	return Options{Metrics: m, Gatherer: reg, Memory: func() int64 { return 5 << 20 }, Describe: func() Description {
		return Description{
			Prices: &price.Rates{Cloud: "aws", Zones: 3},
			Gateways: []GatewayInfo{{
				Name: "cache", Listen: "127.0.0.1:6380", Upstream: "tcp://h:6379", Enabled: true,
				Rules: []RuleInfo{{Name: "orders", Match: "order:*", Setting: "lz4"}, {Name: "menus", Match: "menu:* · string", Setting: "zstd-3"}},
				Messages: []sampled.KindStatus{{
					Method: "/s/<b>M", Direction: "request", Messages: 2, Bytes: 600,
					Sizes: []sampled.SizeBucket{{UpTo: 511, Messages: 2}},
				}},
				Pack: &Packing{Wanted: true, LastPass: &time.Time{}, Trouble: "upstream unreachable"},
			}},
			Dictionaries: []Dictionary{{Name: "orders", Number: "0a1b2c3d", Bytes: 16384, Gateway: "cache", Rule: "menus", Promised: 4, Observed: 3.9}},
		}
	}, Access: Access{Open: true}}
}

func get(t *testing.T, h http.Handler, method, path string) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "http://localhost:9470"+path, nil))
	resp := w.Result()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestPages(t *testing.T) {
	h := New(sampleOptions(t)).Handler()
	for path, want := range map[string]struct{ contentType, text string }{
		"/":           {"text/html", "1.2.3 · abc&lt;def"},
		"/page.css":   {"text/css", "prefers-color-scheme: dark"},
		"/page.js":    {"text/javascript", "api/status"},
		"/api/status": {"application/json", `"rule": "menus"`},
		"/metrics":    {"text/plain", `cinch_values_sealed_total{codec="zstd",gateway="cache",rule="menus"} 1`},
		"/healthz":    {"text/plain", "ok"},
		"/readyz":     {"text/plain", "ok"},
	} {
		resp, body := get(t, h, "GET", path)
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), want.contentType) || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %s\n%s", path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		if resp.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: headers %v", path, resp.Header)
		}
	}
}

func TestNothingCanBeChanged(t *testing.T) {
	opts := sampleOptions(t)
	opts.PProf = true
	h := New(opts).Handler()
	for _, path := range []string{"/", "/api/status", "/metrics", "/healthz", "/readyz", "/debug/pprof/"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			if resp, _ := get(t, h, method, path); resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, resp.StatusCode)
			}
		}
	}
}

func TestProfilesOnlyWhenAskedFor(t *testing.T) {
	opts := sampleOptions(t)
	for _, asked := range []bool{false, true} {
		opts.PProf = asked
		want := map[bool]int{false: http.StatusNotFound, true: http.StatusOK}[asked]
		if resp, _ := get(t, New(opts).Handler(), "GET", "/debug/pprof/"); resp.StatusCode != want {
			t.Errorf("asked for: %v, answer %d", asked, resp.StatusCode)
		}
	}
}

func TestUnknownPagesAreNotThePage(t *testing.T) {
	if resp, _ := get(t, New(sampleOptions(t)).Handler(), "GET", "/favicon.ico"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("answer %d", resp.StatusCode)
	}
}

func TestReadiness(t *testing.T) {
	opts := sampleOptions(t)
	opts.Ready = func(ReadyQuery) ([]string, error) { return nil, errors.New("draining") }
	s := New(opts)
	if resp, body := get(t, s.Handler(), "GET", "/readyz"); resp.StatusCode != 503 || !strings.Contains(body, "draining") {
		t.Errorf("readyz: %d %s", resp.StatusCode, body)
	}
	if resp, _ := get(t, s.Handler(), "GET", "/healthz"); resp.StatusCode != 200 {
		t.Errorf("healthz: %d", resp.StatusCode)
	}
	if st := s.status(time.Now()); st.Ready || st.NotReady != "draining" {
		t.Errorf("%+v", st)
	}
}

// A probe may ask about one gateway, by path or query, and say how many have to be ready. An unauthenticated
// client gets only that answer.
func TestReadinessOfOneGateway(t *testing.T) {
	opts := sampleOptions(t)
	opts.Ready = func(q ReadyQuery) ([]string, error) {
		switch {
		case q.Gateway == "there" || q.Policy == "any":
			return nil, nil
		case q.Policy == "some":
			return nil, ErrNoPolicy
		case q.Gateway == "":
			return nil, errors.New("gateway away: unreachable")
		}
		return nil, ErrNoGateway
	}
	open := New(opts).Handler()
	opts.Access = Access{}
	closed := New(opts).Handler()
	for path, want := range map[string]int{
		"/readyz": 503, "/readyz/there": 200, "/readyz?gateway=there": 200, "/readyz?policy=any": 200,
		"/readyz?policy=some": 400, "/readyz/unix:/path": 404, "/readyz?gateway=nobody": 404,
	} {
		if resp, body := get(t, open, "GET", path); resp.StatusCode != want {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		if resp, body := get(t, closed, "GET", path); resp.StatusCode != want || strings.Contains(body, "unreachable") {
			t.Errorf("%s, asked by an unauthenticated client: %d %s", path, resp.StatusCode, body)
		}
	}
}

// Degraded gateways still serve clients.
func TestDegraded(t *testing.T) {
	opts := sampleOptions(t)
	opts.Ready = func(ReadyQuery) ([]string, error) { return []string{"gateway a: one", "gateway b: <two>"}, nil }
	s := New(opts)
	resp, body := get(t, s.Handler(), "GET", "/readyz")
	if want := "ok\ndegraded: gateway a: one\ndegraded: gateway b: <two>\n"; resp.StatusCode != 200 || body != want {
		t.Errorf("readyz: %d %q", resp.StatusCode, body)
	}
	if st := s.status(time.Now()); !st.Ready || len(st.Degraded) != 2 {
		t.Errorf("%+v", st)
	}
}

func TestStatusMergesRulesInPolicyOrder(t *testing.T) {
	st := New(sampleOptions(t)).status(time.Now())
	if len(st.Gateways) != 2 || st.Gateways[0].Listen != "127.0.0.1:6380" || st.Gateways[1].Name != "quiet" {
		t.Fatalf("%+v", st.Gateways)
	}
	type row struct {
		rule, match string
		sealed      uint64
		active      bool
	}
	var got []row
	for _, r := range st.Gateways[0].Rules {
		got = append(got, row{r.Rule, r.Match, r.Sealed, r.Active})
	}
	want := []row{{"orders", "order:*", 0, true}, {"menus", "menu:* · string", 1, true}, {"yesterday's", "", 1, false}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestStatusTellsTheBudgetsApart(t *testing.T) {
	b := New(sampleOptions(t)).status(time.Now()).Budget
	want := Budgets{Request: Budget{SizeBytes: 1 << 20, InUseBytes: 100, PeakBytes: 100}, Reply: Budget{SizeBytes: 2 << 20}}
	if b != want {
		t.Errorf("%+v, want %+v", b, want)
	}
}

// Lists and objects are never null, so that readers of the JSON need no cases.
func TestStatusHasNoNulls(t *testing.T) {
	opts := sampleOptions(t)
	opts.Describe, opts.Gatherer = nil, nil
	if _, body := get(t, New(opts).Handler(), "GET", "/api/status"); strings.Contains(body, "null") {
		t.Error(body)
	}
}

// Every field of the JSON is documented in docs/METRICS.md.
func TestStatusIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	opts := sampleOptions(t)
	opts.Ready = func(ReadyQuery) ([]string, error) { return nil, errors.New("draining") }
	_, body := get(t, New(opts).Handler(), "GET", "/api/status")
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	for name := range fieldNames(v, map[string]bool{}) {
		if !regexp.MustCompile("`([a-z_]+\\.)*" + regexp.QuoteMeta(name) + "`").Match(doc) {
			t.Errorf("%s is not documented", name)
		}
	}
}

// classes are keys of the JSON that are data, not field names.
var classes = map[string]bool{"damaged": true}

func fieldNames(v any, into map[string]bool) map[string]bool {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if !classes[name] {
				into[name] = true
			}
			fieldNames(field, into)
		}
	case []any:
		for _, element := range v {
			fieldNames(element, into)
		}
	}
	return into
}

// /api/messages exists if messages are measured, and measures no more often than once in an interval.
func TestMessagesAreMeasuredRarely(t *testing.T) {
	opts := sampleOptions(t)
	if resp, _ := get(t, New(opts).Handler(), "GET", "/api/messages"); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
	asked := 0
	opts.Messages = func() []GatewayKinds {
		asked++
		return []GatewayKinds{{Gateway: "ingest", Messages: []MeasuredKind{{Estimates: []sampled.Estimate{{Setting: "s2", Ratio: 2.5}}}}}}
	}
	h := New(opts).Handler()
	for range 3 {
		_, body := get(t, h, "GET", "/api/messages")
		if !strings.Contains(body, `"setting": "s2"`) || strings.Contains(body, "null") && !strings.Contains(body, `"sizes": null`) {
			t.Error(body)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestServeAndShutdown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(sampleOptions(t))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	testenv.AdminPage(t, l.Addr().String(), "/healthz")
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}

// A panic ends the connection of the client that caused it, and is logged at the usual level.
func TestPanicsAreLogged(t *testing.T) {
	opts, log := sampleOptions(t), &testenv.Log{}
	opts.Access.Open, opts.Log = true, slog.New(slog.NewTextHandler(log, nil))
	opts.Describe = func() Description { panic("a fault in Cinch") }
	server := httptest.NewServer(New(opts).Handler())
	defer server.Close()
	for _, path := range []string{"/api/status", "/api/events"} {
		if resp, err := http.Get(server.URL + path); err == nil {
			_ = resp.Body.Close()
			t.Error(path, resp.Status)
		}
	}
	if n := log.Count("a fault in Cinch"); n != 2 || log.Count("level=ERROR") != 2 {
		t.Errorf("%d are logged: %s", n, log)
	}
	if resp, err := http.Get(server.URL + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Error("then", err)
	}
}
