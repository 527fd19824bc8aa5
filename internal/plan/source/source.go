// Package source reads what a plan needs of a store, found by its URL: what is measured of each kind differs.
//
//	source.go                        which kinds there are
//	redis.go, tarantool.go, mongo.go what is asked of each, and what helps against its errors
package source

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/plan"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// Options say what is looked at, and how much may be asked for.
type Options struct {
	Match     string // only keys, spaces or namespaces that match the pattern; "": all
	Databases []int  // of Redis; nil: all, or that of the URL
	MaxBytes  int64
	Share     float64 // of the server's time
	Until     time.Time
	Seed      uint64

	// Of MongoDB: there may be a gateway beside the server too; documents a reply, 0: as was counted.
	Pair  bool
	Batch int
	// Candidates reports that somebody has named what is to be measured.
	Candidates bool
}

// collectors read the kinds of stores that there are. They fill in what the plan has to know of its source.
var collectors = map[string]func(ctx context.Context, rawURL string, p *plan.Options, o Options) (*plan.Collector, error){
	open.Redis: collectRedis, open.Tarantool: collectTarantool, open.Mongo: collectMongo,
}

// Is reports that Collect takes the URL.
func Is(rawURL string) bool { return collectors[open.Kind(rawURL)] != nil }

// Collect samples the store at the URL. Its errors are explained.
func Collect(ctx context.Context, rawURL string, p *plan.Options, o Options) (*plan.Collector, error) {
	return collectors[open.Kind(rawURL)](ctx, rawURL, p, o)
}
