package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/observe/report"
	"github.com/cinch-layer/cinch/test/testenv"
)

// reported runs cinch report, and returns its document.
func reported(t *testing.T, args ...string) *report.Report {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(append([]string{"report", "--json", "--from", "1h"}, args...), strings.NewReader(""), &out, &errs); code != 0 {
		t.Logf("cinch report %v: %d: %s", args, code, &errs)
		return nil
	}
	r := &report.Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// savedByMetricsAndPage returns the bytes that the process has saved, and checks that /metrics and the admin
// page agree.
func savedByMetricsAndPage(t *testing.T, g *testenv.GatewayServer) float64 {
	t.Helper()
	var status admin.Status
	if err := json.Unmarshal([]byte(testenv.AdminPage(t, g.Admin, "/api/status")), &status); err != nil {
		t.Fatal(err)
	}
	saved := g.Metric(t, "cinch_uncompressed_bytes_total") - g.Metric(t, "cinch_compressed_bytes_total")
	if page := float64(status.Gateways[0].Total.SavedBytes); page != saved || saved <= 0 {
		t.Errorf("saved: %v by /metrics, %v by the page", saved, page)
	}
	return saved
}

// betweenLooks limits how often a report or a query, which take CPU, are repeated.
const betweenLooks = 200 * time.Millisecond

// A report from Prometheus equals one from the admin page, for the same traffic and over a restart; a page
// with the figures is written.
func TestReportFromPrometheus(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: redis.Addr, Force: true, Process: fmt.Sprintf("history: {path: %q}", t.TempDir()), Rules: "- {name: all, key: '*', setting: zstd-1}"})
	p := testenv.Prometheus(t, fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: cinch, static_configs: [{targets: [%q]}]}]\n", g.Admin), "")
	traffic := func(values int) {
		client := goredis.NewClient(&goredis.Options{Addr: g.Addr, DisableIdentity: true, ReadTimeout: time.Minute})
		defer client.Close()
		for i := range values {
			key, value := fmt.Sprint("k", i), strings.Repeat(fmt.Sprint("cinch ", i), 500)
			if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := client.Get(t.Context(), key).Result(); err != nil || got != value {
				t.Fatal(err)
			}
		}
		sealed := g.Metric(t, "cinch_values_sealed_total")
		testenv.Eventually(t, "Prometheus has scraped all of it", func() bool {
			if p.Found(t, fmt.Sprintf("sum(cinch_values_sealed_total) == %v", sealed)) > 0 && p.Found(t, "up == 1") > 0 {
				return true
			}
			time.Sleep(betweenLooks)
			return false
		})
	}
	traffic(300)
	savedBytes := savedByMetricsAndPage(t, g)
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = g.Wait()
	if err := g.Restart(); err != nil {
		t.Fatal(err)
	}
	traffic(400) // more than before the restart, so that the counters alone would not reveal it
	savedBytes += savedByMetricsAndPage(t, g)

	name, cur := filepath.Join(t.TempDir(), "saved.html"), filepath.Join(t.TempDir(), "cur.csv")
	if err := os.WriteFile(cur, []byte("line_item_usage_type,line_item_unblended_cost\nDataTransfer-Regional-Bytes,7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := reported(t, "--prometheus", p.URL, "--prometheus-match", `job="cinch"`, "--html", name, "--bill", cur)
	if from == nil {
		t.Fatal("no report from Prometheus")
	}
	if b := from.Bill; b == nil || b.Amount != 7 || b.Source != "cur.csv" || b.Without <= 7 {
		t.Errorf("bill %+v", b)
	}
	var page *report.Report
	testenv.Eventually(t, "the page's history has all of it", func() bool {
		if page = reported(t, g.Admin); page != nil && page.Total.SavedBytes >= 0.999*savedBytes {
			return true
		}
		time.Sleep(betweenLooks)
		return false
	})
	for what, pair := range map[string][2]float64{
		"saved": {from.Total.SavedBytes, savedBytes}, "raw": {from.Total.RawBytes, page.Total.RawBytes}, "stored": {from.Total.StoredBytes, page.Total.StoredBytes}, "cpu": {from.Total.CPUSeconds, page.Total.CPUSeconds},
		"in": {from.After.InBytes, page.After.InBytes}, "out": {from.After.OutBytes, page.After.OutBytes}, "saving": {from.Total.Saving.Value, page.Total.Saving.Value},
	} {
		t.Logf("%s: %v from Prometheus, %v from the page", what, pair[0], pair[1])
		if math.Abs(pair[0]-pair[1]) > 0.01*pair[1] || pair[1] <= 0 {
			t.Errorf("%s differs", what)
		}
	}
	if len(from.Rows) != len(page.Rows) || len(from.Rows) != 2 {
		t.Errorf("rows %+v, %+v", from.Rows, page.Rows)
	}
	if text, err := os.ReadFile(name); err != nil || !bytes.Contains(text, []byte("What compression saved")) {
		t.Errorf("no page: %v", err)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"report", "--from", "1h", g.Admin, "--bill", name}, strings.NewReader(""), &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "hint: export a cost and usage report") {
		t.Errorf("of a page as a bill: %d, %s", code, &errs)
	}
	errs.Reset()
	if code := run([]string{"report", "--from", "1h", "--prometheus", "http://" + g.Admin}, strings.NewReader(""), &out, &errs); code != exitUnreachable || !strings.Contains(errs.String(), "address of Prometheus") {
		t.Errorf("a server that is not Prometheus: %d, %s", code, &errs)
	}
}
