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

// storeAccess is a gateway's own access to its store, apart from its clients'. It fetches and publishes the
// dictionaries that values name.
//
// Each gateway has a set of dictionaries of its own. If the process had only one set, a client with write
// access to one server could make an envelope that names another server's dictionary, and read parts of the
// values there.
type storeAccess struct {
	local   dict.Set
	dicts   store.Dicts
	backend storeBackend
	log     *slog.Logger

	ctx         context.Context // ends the background work
	cancel      context.CancelFunc
	cancelAdopt context.CancelFunc // ends the search for the dictionaries that the last policy named
}

// storeBackend is the part of a storeAccess that depends on the kind of store.
type storeBackend interface {
	// adopt makes dictionaries usable. It retries until all of them are, or until ctx ends.
	adopt(ctx context.Context, files []*codec.Dict, others []uint32)
	// warnIfGateway logs a warning if the store is another gateway. It returns when that is known or ctx ends.
	warnIfGateway(ctx context.Context)
	// reconfigure applies a new configuration of the store.
	reconfigure(g *config.Gateway)
	scanOptions() open.Options    // for another connection to the store; the caller adds rules and dictionaries
	isUnavailable(err error) bool // see pack.Options
	hasFormats() bool             // see pack.Job
	pause() store.Pause
	publishHint() string // advice for a server that refuses dictionaries
	close()
}

func newStoreAccess(log *slog.Logger) *storeAccess {
	k := &storeAccess{log: log, cancelAdopt: func() {}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// adopt makes the dictionaries of a policy usable: it puts files into the store, and fetches the others, of
// which only the numbers are known. Until then values are compressed without them. It does not block, and is
// not for concurrent use.
func (k *storeAccess) adopt(files []*codec.Dict, others []uint32) {
	k.cancelAdopt()
	ctx, cancel := context.WithCancel(k.ctx)
	k.cancelAdopt = cancel
	if len(files)+len(others) > 0 {
		go k.backend.adopt(ctx, files, others)
	}
}

func (k *storeAccess) close() {
	k.cancelAdopt()
	k.cancel()
	k.backend.close()
}
