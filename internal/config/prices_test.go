package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/price"
)

const priced = "gateways: [{name: a, protocol: redis, listen: ':1', upstream: 'redis://h', rules: [{setting: lz4}]}]\n"

// Without configuration the prices are AWS's in three zones, and marked as assumed. A file next to the
// configuration replaces single prices.
func TestLoadPrices(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mine.yaml", "prices: {vcpu_hour: {price: 0.02, unit: hour, source: contract, date: 2026-11-01}}")
	write("typo.yaml", "prices: {vcpu_hours: {price: 0.02, unit: hour, source: contract, date: 2026-11-01}}")
	for _, c := range []struct {
		text          string
		crossing, cpu float64 // prices
		zones         int
		share         float64 // of the traffic that crosses
		assumed       bool
		wrong         string
	}{
		{text: "", crossing: 0.02, cpu: 0.0425, zones: 3, share: 2.0 / 3, assumed: true},
		{text: "prices: {}", crossing: 0.02, cpu: 0.0425, zones: 3, share: 2.0 / 3, assumed: true},
		{text: "prices: {zones: 1}", crossing: 0.02, cpu: 0.0425, zones: 1},
		{text: "prices: {cross_zone: 0%}", crossing: 0.02, cpu: 0.0425, zones: 3},
		{text: "prices: {cross_zone: 0%, zones: 2}", crossing: 0.02, cpu: 0.0425, zones: 2},
		{text: "prices: {cross_zone: 1%, zones: 1}", crossing: 0.02, cpu: 0.0425, zones: 1, share: 0.01},
		{text: "prices: {cross_zone: 100%}", crossing: 0.02, cpu: 0.0425, zones: 3, share: 1},
		{text: "prices: {cloud: gcp, zones: 2, file: mine.yaml}", crossing: 0.01, cpu: 0.02, zones: 2, share: 0.5},
		{text: "prices: {file: gone.yaml}", wrong: "prices.file: open .*gone.yaml"},
		{text: "prices: {file: typo.yaml}", wrong: `prices.file: prices: unknown price "vcpu_hours"`},
	} {
		cfg, err := Parse(filepath.Join(dir, "cinch.yaml"), []byte(priced+c.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := cfg.LoadPrices()
		if c.wrong != "" {
			before, after, _ := strings.Cut(c.wrong, ".*")
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "cinch.yaml:2: "+before) || !strings.Contains(err.Error(), after) {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if err != nil || r.Table.CrossZone() != c.crossing || r.Table[price.VCPU].Price != c.cpu || r.Zones != c.zones || r.Layout().Crossing() != c.share || r.Assumed != c.assumed {
			t.Errorf("%s: %+v, %v", c.text, r, err)
		}
		shown, err := cfg.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(filepath.Join(dir, "cinch.yaml"), shown, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = again.LoadPrices(); err != nil || r.Layout().Crossing() != c.share {
			t.Errorf("%s: shown as\n%s\n%v crosses zones, %v", c.text, shown, r.Layout().Crossing(), err)
		}
	}
}
