package plan

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cinch-layer/cinch/internal/store"
)

// database holds keys with values of size bytes. Every tenth key is menu:N, the others are order:N.
type database struct {
	name       string
	keys, size int
}

func (d database) Name() string                        { return d.name }
func (d database) DB() string                          { return d.name }
func (d database) Keys(context.Context) (int64, error) { return int64(d.keys), nil }

func (d database) Share(cursor string) float64 {
	at, _ := strconv.Atoi(cursor)
	return float64(at) / float64(d.keys)
}

func (d database) Page(_ context.Context, cursor string, o store.ScanOptions) (p store.Page, err error) {
	at, _ := strconv.Atoi(cursor)
	end := min(at+o.Count, d.keys)
	for ; at < end; at++ {
		kind := "order"
		if at%10 == 0 {
			kind = "menu"
		}
		if key := fmt.Sprintf("%s:%d", kind, at); strings.HasPrefix(key, strings.TrimSuffix(o.Match, "*")) {
			p.Keys = append(p.Keys, []byte(key))
		}
	}
	if end < d.keys {
		p.Next = strconv.Itoa(end)
	}
	return p, nil
}

func (d database) Read(_ context.Context, keys [][]byte, _ store.ReadOptions, emit func(*store.Value) error) error {
	for _, k := range keys {
		if err := emit(&store.Value{Key: k, Type: store.String, Stored: make([]byte, d.size)}); err != nil {
			return err
		}
	}
	return nil
}

// A plan of some keys extrapolates to those keys and not to the server, also if the walk is cut short. The server's
// rates are used only if they are those of the keys of the plan.
func TestKeysOfAPart(t *testing.T) {
	small, large := database{"0", 10_000, 100}, database{"1", 300, 10_000}
	for name, c := range map[string]struct {
		spaces   []Space
		match    string
		maxBytes int64
		server   float64 // keys
		total    float64
		whole    bool
		rates    bool
	}{
		"all":                   {[]Space{small}, "", 0, 10_000, 10_000, true, true},
		"all that match":        {[]Space{small}, "*", 0, 10_000, 10_000, true, true},
		"a tenth":               {[]Space{small}, "menu:*", 0, 10_000, 1000, true, false},
		"most":                  {[]Space{small}, "order:*", 0, 10_000, 9000, true, true},
		"none":                  {[]Space{small}, "x:*", 0, 10_000, 0, true, false},
		"all, cut short":        {[]Space{small}, "", 200_000, 10_000, 10_000, false, true},
		"a tenth, cut short":    {[]Space{small}, "menu:*", 40_000, 10_000, 1000, false, false},
		"most, cut short":       {[]Space{small}, "order:*", 200_000, 10_000, 9000, false, true},
		"two, cut in the first": {[]Space{small, large}, "menu:*", 40_000, 10_300, 1030, false, false},
		"two, cut in the next":  {[]Space{large, small}, "order:*", 2_800_000, 10_300, 9270, false, true},
		"cut within a page":     {[]Space{large}, "", 1_000_000, 300, 300, false, true},
		"part of a page":        {[]Space{large}, "order:*", 1_000_000, 300, 270, false, true},
		"one database of two":   {[]Space{large}, "", 0, 10_300, 300, true, false},
		"unknown":               {[]Space{small}, "menu:*", 0, 0, 1000, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := 0.0
				collected := NewCollector(CollectOptions{Cost: RedisCost})
				info, err := Keys(t.Context(), collected, KeysOptions{
					Spaces: c.spaces, Match: c.match, MaxBytes: c.maxBytes, Share: 1,
					Activity: func(context.Context) (store.Activity, error) {
						return store.Activity{Uptime: 86400, Reads: 1e9, Writes: 5e6, Keys: c.server}, nil
					},
					Progress: func(now float64, _ string) {
						if now < done || now > 1 {
							t.Errorf("progress %v after %v", now, done)
						}
						done = now
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				values := 0.0
				for _, f := range collected.found() {
					values += f.sizes.values * f.scale
				}
				for what, n := range map[string]float64{"names": float64(info.Total), "values": values} {
					if math.Abs(n-c.total) > 0.02*c.total {
						t.Errorf("%v %s, want %v", n, what, c.total)
					}
				}
				if info.Whole != c.whole || (done == 1) != c.whole || (info.Rates != Rates{}) != c.rates || (info.Doubt == "") != c.rates {
					t.Errorf("whole %v, %v done, rates %+v, doubt %q", info.Whole, done, info.Rates, info.Doubt)
				}
			})
		})
	}
}
