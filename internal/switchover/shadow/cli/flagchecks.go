package cli

import (
	"cmp"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// minMemory is the smallest memory bound that a mirror or a recording can work with.
const minMemory = shadow.MiB

// parseMemory parses --memory.
func parseMemory(text string) (int64, error) {
	var size config.Bytes
	if err := size.UnmarshalText([]byte(text)); err != nil {
		return 0, usage("--memory: %w", err)
	}
	if size < minMemory {
		return 0, terminal.WithHint(usage("--memory: %s is too small, minimum 1MiB", text), "leave it out for the default 128MiB")
	}
	return int64(size), nil
}

// applyLimits checks shares, sizes and times, and fills in defaults.
func (m *Mirror) applyLimits(p Protocol) error {
	if m.Config.Reads == 0 {
		m.Config.Reads = p.Reads
	}
	m.Config.Wait, m.Config.Patience = p.Wait, p.Patience
	var err error
	if m.Config.Memory, err = parseMemory(m.Memory); err != nil {
		return err
	}
	if err = cmp.Or(m.checkShares(), m.checkTimes(), m.checkCounts()); err != nil || m.Servers.RecordedProtocol != "" {
		return err
	}
	return checkBound(m.Config.Bound) // not checked for a replay, which delays no clients
}

// checkBound checks --bound, the limit for production's delay. It can't be off, but a long one has the same effect.
func checkBound(bound time.Duration) error {
	if bound <= 0 {
		return terminal.WithHint(usage("--bound: %v must be longer than 0", bound), "leave it out for the default 1ms, or give a long one, such as 1h, so that the mirror never turns itself off")
	}
	return nil
}

func (m *Mirror) checkShares() error {
	for _, share := range []struct {
		flag string
		of   float64
	}{{"--reads", m.Config.Reads}, {"--margin-p50", m.Config.Margins.P50}, {"--margin-p99", m.Config.Margins.P99}} {
		if !(share.of > 0 && share.of <= 1) { // also false for NaN
			return usage("%s: %v must be above 0 and at most 1", share.flag, share.of)
		}
	}
	return nil
}

func (m *Mirror) checkTimes() error {
	if m.Config.Margins.Absolute < 0 {
		return usage("--margin-absolute: %v must not be negative", m.Config.Margins.Absolute)
	}
	if m.Config.Batch < minBatch {
		return terminal.WithHint(usage("--batch: %v is too short, minimum %v", m.Config.Batch, minBatch), "leave it out for the default 30s")
	}
	if m.Config.DataCheck != shadow.DataOff && m.Config.DataTime <= 0 {
		return terminal.WithHint(usage("--data-check-time: %v must be longer than 0", m.Config.DataTime), "leave it out for the default 10m, or give --data-check off")
	}
	return nil
}

// minBatch is the shortest batch that can contain any operations.
const minBatch = time.Millisecond

func (m *Mirror) checkCounts() error {
	for _, count := range []struct {
		flag string
		of   int
	}{{"--baseline", m.Config.Baseline}, {"--batches", m.Config.Batches}} {
		if count.of < 0 {
			return terminal.WithHint(usage("%s: %d must not be negative", count.flag, count.of), "leave it out for as many as a verdict needs")
		}
	}
	return nil
}

// checkFlags rejects flags without an effect in this run: their users expect one.
func (m *Mirror) checkFlags(p Protocol, gateway bool) error {
	c := &m.Config
	for _, one := range []struct {
		flag  string
		given bool
	}{
		{"--ignore-column", len(c.Ignore) > 0},
		{"--only-database", len(c.Databases) > 0},
		{"--allow-foreign-servers", c.AllowForeign},
		{"--data-check-production", c.DataProduction},
	} {
		if one.given && p.Flag != Postgres.Flag {
			return terminal.WithHint(usage("%s is only for --postgres", one.flag), "leave it out: %s does not support it", p.Name())
		}
	}
	switch {
	case c.BaselineOnly && (c.State == "" || gateway):
		return terminal.WithHint(usage("--baseline-only needs two servers without cinch=, and --state to store the A/A phase"), "--test cinch=URL has an A/A phase of its own")
	case len(m.Rules) > 0 && !gateway:
		return terminal.WithHint(usage("--rule is only for the gateway of --test cinch=URL"), "write cinch= before the test target's URL, or leave --rule out")
	case c.DataProduction && m.Servers.RecordedProtocol != "":
		return terminal.WithHint(usage("--data-check-production: a recording has no production to compare with"), "leave it out")
	case m.Page.TokenFile != "" && (m.Page.Listen == "" || m.Page.Listen == "off"):
		return terminal.WithHint(usage("--admin-token-file needs --admin"), "add --admin 127.0.0.1:9471")
	}
	return nil
}
