package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The page prices the counters, and a reload changes prices, including those of a file. An unreadable file
// changes nothing.
func TestReloadChangesPrices(t *testing.T) {
	dir, log := t.TempDir(), &testenv.Log{}
	file := filepath.Join(dir, "mine.yaml")
	prices := "{}"
	p, err := New(Options{
		Load: func() (*config.Config, error) {
			text := "admin: {listen: '127.0.0.1:0'}\ngateways: [{name: a, protocol: redis, listen: '127.0.0.1:0', upstream: 'redis://127.0.0.1:1', rules: [{setting: lz4}]}]\nprices: " + prices + "\n"
			return config.Parse(filepath.Join(dir, "cinch.yaml"), []byte(text), nil)
		},
		Log:  log,
		Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, drain := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, t.Context()) }()
	_, page := p.Addresses()
	p.gateways[0].stats.Sealed("rule-1", codec.LZ4, 2e9, 5e8, 36*time.Second)
	p.gateways[0].stats.Opened(codec.LZ4, 5e8, 2e9, 36*time.Second)
	want := func(traffic, cpu float64, assumed bool) {
		t.Helper()
		var st admin.Status
		if err := json.Unmarshal([]byte(testenv.AdminPage(t, page.String(), "/api/status")), &st); err != nil {
			t.Fatal(err)
		}
		m := st.Money
		if m == nil || math.Abs(m.TrafficSoFar-traffic) > 1e-9 || math.Abs(m.CPUSoFar-cpu) > 1e-9 || m.Assumed != assumed || m.OverSeconds <= 0 || m.Month == 0 || st.Gateways[0].Money.SoFar != m.SoFar {
			t.Errorf("%+v, want %v less %v", m, traffic, cpu)
		}
	}
	reloaded := 0
	reload := func() {
		t.Helper()
		p.Reload()
		reloaded++
		testenv.Eventually(t, "it is reloaded", func() bool { return log.Count("configuration reloaded")+log.Count("keeping the old one") == reloaded })
	}
	want(0.04, 72*0.0425/3600, true)
	prices = "{zones: 1}"
	reload()
	want(0, 72*0.0425/3600, false)
	if err := os.WriteFile(file, []byte("prices: {vcpu_hour: {price: 0.5, unit: hour, source: contract, date: 2026-11-01}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	prices = "{cloud: gcp, zones: 3, file: mine.yaml}"
	reload()
	want(0.02, 0.01, false)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	reload()
	want(0.02, 0.01, false)
	for per, dollars := range map[string]string{"saved_byte": "6.666666666666667e-12", "opened_byte": "6.666666666666667e-12", "cpu_second": "0.0001388888888888889"} {
		line := fmt.Sprintf("cinch_serve_price_dollars{gateway=%q,per=%q} %s\n", "a", per, dollars)
		if text := testenv.AdminPage(t, page.String(), "/metrics"); !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	drain(errors.New("told to"))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
