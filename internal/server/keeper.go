package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// The interval between two requests for a dictionary that rules name and the server lacks. It doubles after
// each.
const (
	firstRefetch = 5 * time.Second
	lastRefetch  = time.Minute
)

// keeper is a gateway's own access to its store, for the dictionaries that values name.
//
// Each keeper has a set of dictionaries of its own. If the process had only one set, a client with write
// access to one server could make an envelope that names another server's dictionary, and read parts of the
// values there.
type keeper struct {
	local dict.Set
	dicts store.Dicts
	store keeperStore
	log   *slog.Logger

	ctx         context.Context // ends the background work
	cancel      context.CancelFunc
	cancelAdopt context.CancelFunc // ends the search for the dictionaries that the last policy named
}

// keeperStore is the part of a keeper that depends on the kind of store.
type keeperStore interface {
	// adopt makes dictionaries usable, and tries until all are or ctx ends.
	adopt(ctx context.Context, files []*codec.Dict, others []uint32)
	// warnIfGateway logs a warning if the store is another gateway. It returns when that is known or ctx ends.
	warnIfGateway(ctx context.Context)
	// reconfigure applies a new configuration of the store.
	reconfigure(g *config.Gateway)
	scanOptions() open.Options    // apart from rules and dictionaries, for a connection besides the gateway's own few
	isUnavailable(err error) bool // see pack.Options
	hasFormats() bool             // see pack.Job
	pause() store.Pause
	publishHint() string // what has to change on the server for it to accept dictionaries, where it refuses them
	close()
}

func newKeeper(log *slog.Logger) *keeper {
	k := &keeper{log: log, cancelAdopt: func() {}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// adopt makes the dictionaries of a policy usable: it puts files into the store, and fetches the others, of
// which only the numbers are known. Until then values are compressed without them. It does not block, and is
// not for concurrent use.
func (k *keeper) adopt(files []*codec.Dict, others []uint32) {
	k.cancelAdopt()
	ctx, cancel := context.WithCancel(k.ctx)
	k.cancelAdopt = cancel
	if len(files)+len(others) > 0 {
		go k.store.adopt(ctx, files, others)
	}
}

func (k *keeper) close() {
	k.cancelAdopt()
	k.cancel()
	k.store.close()
}
