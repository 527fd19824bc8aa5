package config

import (
	"fmt"
	"slices"
	"time"
)

// Pack configures whether and how a gateway packs the values that its upstream already holds; see
// internal/store/pack. docs/PACK.md explains it to users.
type Pack struct {
	Background     bool     `yaml:"background"`
	Mode           string   `yaml:"mode"`  // seal or estimate
	Every          Duration `yaml:"every"` // from the end of a pass to the next
	Parallel       int      `yaml:"parallel"`
	KeysPerSecond  int      `yaml:"keys_per_second"`  // 0: no limit
	BytesPerSecond Bytes    `yaml:"bytes_per_second"` // of values read; 0: no limit
	MaxLatency     Duration `yaml:"max_latency"`      // 0: derived from the server's normal latency
	SkipIdleBelow  Duration `yaml:"skip_idle_below"`
	SkipFreqAbove  int      `yaml:"skip_freq_above"`
	AllowRecode    bool     `yaml:"allow_recode"`    // values of rules with a format may come back with other compressed bytes
	State          string   `yaml:"state,omitempty"` // file, relative to the config file's directory
}

// Modes of Pack.
const (
	PackSeal     = "seal"
	PackEstimate = "estimate" // replaces nothing
)

const (
	defaultPackEvery = 6 * time.Hour
	defaultPackKeys  = 2000     // a second
	defaultPackBytes = 10 << 20 // a second
	maxPackParallel  = 64
)

func (p *Pack) setDefaults() {
	p.Mode = PackSeal
	p.Every = Duration(defaultPackEvery)
	p.Parallel = 1
	p.KeysPerSecond, p.BytesPerSecond = defaultPackKeys, defaultPackBytes
}

// Packing returns how the gateway packs in the background, with the state file's path resolved. Background is
// false if the gateway doesn't.
func (c *Config) Packing(g *Gateway) Pack {
	if g.Pack == nil || !g.Pack.Background {
		return Pack{}
	}
	p := *g.Pack
	p.State = c.path(p.State)
	return p
}

func (v *validator) pack(g *Gateway, path string, states map[string]string) {
	p := g.Pack
	if p == nil {
		return
	}
	path += ".pack"
	if !g.HasStore() {
		v.add(path, "leave it out", "a gateway for %s has no store to pack", g.Protocol)
	}
	if g.Protocol == Tarantool && p.SkipIdleBelow != 0 {
		v.add(path+".skip_idle_below", "leave it out", "is only for Redis: Tarantool does not count the use of tuples")
	}
	if g.Protocol == Tarantool && p.SkipFreqAbove != 0 {
		v.add(path+".skip_freq_above", "leave it out", "is only for Redis: Tarantool does not count the use of tuples")
	}
	if p.AllowRecode && !slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.Format != "" }) {
		v.add(path+".allow_recode", "leave it out", "no rule has a format")
	}
	v.oneOf(path+".mode", p.Mode, PackSeal, PackEstimate)
	if p.Every <= 0 {
		v.add(path+".every", "", "is not above 0s")
	}
	if p.Parallel < 1 || p.Parallel > maxPackParallel {
		v.add(path+".parallel", "", "%d is not between 1 and %d", p.Parallel, maxPackParallel)
	}
	for _, x := range []struct {
		key string
		n   int64
	}{
		{".keys_per_second", int64(p.KeysPerSecond)},
		{".max_latency", int64(p.MaxLatency)},
		{".skip_idle_below", int64(p.SkipIdleBelow)},
		{".skip_freq_above", int64(p.SkipFreqAbove)},
	} {
		if x.n < 0 {
			v.add(path+x.key, "0 is no limit", "is negative")
		}
	}
	if p.SkipIdleBelow > 0 && p.SkipFreqAbove > 0 {
		v.add(path+".skip_freq_above", "drop one of them: a server keeps one or the other, depending on its maxmemory-policy", "can't be combined with skip_idle_below")
	}
	if p.State == "" {
		return
	}
	file := v.c.path(p.State)
	if other, taken := states[file]; taken {
		v.add(path+".state", "", "%s is already the file of %s", p.State, other)
	}
	states[file] = fmt.Sprintf("gateway %q", g.Name)
}
