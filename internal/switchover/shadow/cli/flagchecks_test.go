package cli

import (
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// limited returns a run with the flags' defaults.
func limited() *Mirror {
	m := &Mirror{Memory: "1MiB"}
	m.Config.Margins = shadow.Margins{P50: 0.05, P99: 0.1}
	m.Config.Batch, m.Config.Bound = 30*time.Second, time.Millisecond
	m.Config.DataCheck, m.Config.DataTime = shadow.DataSample, time.Minute
	return m
}

// Values out of range are refused before clients are served, with the flag's name.
func TestShadowLimits(t *testing.T) {
	for flag, changes := range map[string][]func(*Mirror){
		"": {func(*Mirror) {}, func(m *Mirror) { m.Config.DataCheck, m.Config.DataTime = shadow.DataOff, 0 }, func(m *Mirror) { m.Config.Bound, m.Servers.RecordedProtocol = 0, "redis" }},
		"--batch": {
			func(m *Mirror) { m.Config.Batch = 0 }, func(m *Mirror) { m.Config.Batch = -time.Second }, func(m *Mirror) { m.Config.Batch = 1 },
		},
		"--bound":           {func(m *Mirror) { m.Config.Bound = 0 }, func(m *Mirror) { m.Config.Bound = -time.Second }},
		"--batches":         {func(m *Mirror) { m.Config.Batches = -1 }},
		"--baseline":        {func(m *Mirror) { m.Config.Baseline = -1 }},
		"--memory":          {func(m *Mirror) { m.Memory = "0" }, func(m *Mirror) { m.Memory = "1" }, func(m *Mirror) { m.Memory = "1023KiB" }, func(m *Mirror) { m.Memory = "much" }},
		"--data-check-time": {func(m *Mirror) { m.Config.DataTime = 0 }, func(m *Mirror) { m.Config.DataTime = -1 }},
		"--margin-absolute": {func(m *Mirror) { m.Config.Margins.Absolute = -1 }},
		"--margin-p50":      {func(m *Mirror) { m.Config.Margins.P50 = math.NaN() }, func(m *Mirror) { m.Config.Margins.P50 = 0 }},
		"--reads":           {func(m *Mirror) { m.Config.Reads = -0.1 }, func(m *Mirror) { m.Config.Reads = 1.1 }},
	} {
		for i, change := range changes {
			m := limited()
			change(m)
			err := m.applyLimits(Redis)
			if flag == "" && err != nil || flag != "" && (!errors.Is(err, store.ErrUsage) || !strings.HasPrefix(err.Error(), flag+": ")) {
				t.Errorf("%s, %d: %v", flag, i, err)
			}
		}
	}
}

// The same for a recording.
func TestRecordLimits(t *testing.T) {
	for flag, rec := range map[string]Recording{
		"--memory": {Memory: "0", Bound: time.Millisecond},
		"--bound":  {Memory: "1MiB"},
	} {
		rec.Redis, rec.To, rec.Limit, rec.Plain = "127.0.0.1:0=redis://127.0.0.1:1", t.TempDir()+"/tape", "1GiB", true
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		rec.Exit = true
		if err := rec.Record(t.Context(), signals, io.Discard); !errors.Is(err, store.ErrUsage) || !strings.HasPrefix(err.Error(), flag+": ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
