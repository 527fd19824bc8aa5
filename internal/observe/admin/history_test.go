package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/observe/history"
)

func historyPage(t *testing.T, access Access) http.Handler {
	t.Helper()
	h := history.Open(history.Options{})
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range int64(61) {
		h.Add(at, []history.Sample{
			{Series: history.Series{Name: "raw_bytes", Gateway: "a", Rule: "r"}, Value: 100 * i},
			{Series: history.Series{Name: "raw_bytes", Gateway: "b", Rule: "r"}, Value: 7 * i},
			{Series: history.Series{Name: "memory_bytes"}, Kind: history.Gauge, Value: 1000 + i},
		})
		at = at.Add(history.Interval)
	}
	o := sampleOptions(t)
	o.History, o.Access = h, access
	return New(o).Handler()
}

func getPage(h http.Handler, url string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	return w
}

func TestHistory(t *testing.T) {
	page := historyPage(t, Access{Open: true})
	w := getPage(page, "http://localhost/api/history?series=raw_bytes,memory_bytes&from=2026-11-01&to=2026-11-01T00:20:00Z&step=5m")
	var past Past
	if err := json.Unmarshal(w.Body.Bytes(), &past); err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err, w.Body)
	}
	if len(past.Series) != 3 || past.StepSeconds != 300 || past.Oldest == nil || past.Path != "" {
		t.Fatalf("%+v", past)
	}
	memory, raw := past.Series[0], past.Series[1]
	if memory.Kind != "gauge" || *memory.Values[1] != 1059 || raw.Gateway != "a" || *raw.Values[1] != 3000 || raw.Values[3] != nil {
		t.Errorf("%s", w.Body)
	}
	w = getPage(page, "http://localhost/api/history?series=raw_bytes&gateway=b&from=2026-11-01&to=2026-11-02")
	past = Past{}
	if err := json.Unmarshal(w.Body.Bytes(), &past); err != nil || len(past.Series) != 1 || *past.Series[0].Values[0] != 420 {
		t.Errorf("%v: %s", err, w.Body)
	}
	for _, bad := range []string{"from=then", "to=1x", "step=fast", "step=-1s", "step=1ms", "from=2026-11-02&to=2026-11-01", "from=90d&step=1s", "from=0001-01-01T00:00:00Z", "from=0001-01-01T00:00:00Z&step=1h", "to=9999-12-31"} {
		if w := getPage(page, "http://localhost/api/history?"+bad); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
}

// The history takes the same access as the status, and its address does not exist without a history.
func TestHistoryAccess(t *testing.T) {
	for url, want := range map[string]int{"http://localhost/api/history": http.StatusOK, "http://evil.example/api/history": http.StatusMisdirectedRequest} {
		if w := getPage(historyPage(t, Access{Open: true}), url); w.Code != want {
			t.Errorf("%s: %d", url, w.Code)
		}
	}
	if w := getPage(historyPage(t, Access{}), "http://10.0.0.1/api/history"); w.Code != http.StatusUnauthorized {
		t.Errorf("off loopback, without a token: %d", w.Code)
	}
	if w := getPage(New(sampleOptions(t)).Handler(), "http://localhost/api/history"); w.Code != http.StatusNotFound {
		t.Errorf("without a history: %d", w.Code)
	}
}
