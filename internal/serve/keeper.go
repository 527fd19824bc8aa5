package serve

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

// Between two questions about a dictionary that rules name and the server lacks. It doubles from one to the other.
const (
	firstRefetch = 5 * time.Second
	lastRefetch  = time.Minute
)

// keeper is a gateway's own access to its store, where it keeps the dictionaries that values
// name.
//
// Each has a set of dictionaries of its own. With one for the whole process, who may
// write to one server could make an envelope that names another server's dictionary,
// and read pieces of the values there.
type keeper struct {
	local dict.Set
	dicts store.Dicts
	store keptStore
	log   *slog.Logger

	ctx    context.Context // ends the work in the background
	cancel context.CancelFunc
	giveUp context.CancelFunc // ends the search for what the last policy named
}

// keptStore is what stores do differently for a gateway.
type keptStore interface {
	// adopt makes dictionaries usable, and tries until all are or ctx ends.
	adopt(ctx context.Context, files []*codec.Dict, others []uint32)
	// lookForChain logs that the store is another gateway, if it is, and returns when that is known or ctx ends.
	lookForChain(ctx context.Context)
	// reconfigure takes what another configuration says of the store.
	reconfigure(g *config.Gateway)
	walk() open.Options         // beside rules and dictionaries, for a connection past the gateway's own few
	unavailable(err error) bool // see pack.Options
	formats() bool              // see pack.Job
	pause() store.Pause
	toKeep() string // what it takes to keep dictionaries there, where that is refused
	close()
}

func newKeeper(log *slog.Logger) *keeper {
	k := &keeper{log: log, giveUp: func() {}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// adopt makes the dictionaries of a policy usable: files go into the store, and the
// others, of which only the numbers are known, are fetched from it. Until then values
// are sealed without. It does not block, and is not for concurrent use.
func (k *keeper) adopt(files []*codec.Dict, others []uint32) {
	k.giveUp()
	ctx, cancel := context.WithCancel(k.ctx)
	k.giveUp = cancel
	if len(files)+len(others) > 0 {
		go k.store.adopt(ctx, files, others)
	}
}

func (k *keeper) close() {
	k.giveUp()
	k.cancel()
	k.store.close()
}
