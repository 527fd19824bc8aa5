// Package source reads a plan's data from a store, found by its URL. What is measured depends on the kind of
// store.
//
//	source.go                        the kinds of stores
//	redis.go, tarantool.go, mongo.go reading each kind, and hints for its errors
package source

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// Options configures what is read, and how much.
type Options struct {
	Match     string // only keys, spaces or namespaces that match the pattern; "": all
	Databases []int  // for Redis; nil: all, or that of the URL
	MaxBytes  int64
	Share     float64 // of the server's time
	Until     time.Time
	Seed      uint64

	// For MongoDB: there may be a gateway next to the server too; documents per reply, 0: as counted.
	Pair  bool
	Batch int
	// Candidates reports whether the user has named what to measure.
	Candidates bool
}

// collectors holds the collector for each kind of store. It fills in the properties of the plan's source.
var collectors = map[string]func(ctx context.Context, rawURL string, p *plan.Options, o Options) (*plan.Collector, error){
	open.Redis: collectRedis, open.Tarantool: collectTarantool, open.Mongo: collectMongo,
}

// Is reports whether Collect supports the URL.
func Is(rawURL string) bool { return collectors[open.Kind(rawURL)] != nil }

// Collect samples the store at the URL. Its errors are explained.
func Collect(ctx context.Context, rawURL string, p *plan.Options, o Options) (*plan.Collector, error) {
	return collectors[open.Kind(rawURL)](ctx, rawURL, p, o)
}
