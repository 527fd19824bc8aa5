package tarantool

import (
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// handling says how a request is treated.
type handling uint8

const (
	passes    handling = iota // unchanged; its reply is opened
	pings                     // a sign of life, or the question whether this is a gateway
	oneWay                    // nothing answers it
	replicate                 // from here on the connection is another protocol's
	features                  // what the client understands

	// These have a place in their lane: they read, write or run something, and the server looks at the stamp of each
	// first.
	logsIn       // a login
	transactions // the beginning or end of one
	inOrder      // unchanged
	sql          // a statement
	tuples       // a tuple, some of whose fields are sealed
	updates      // operations on fields
	upserts      // a tuple and operations
	calls        // arguments of a stored function or of Lua
)

// hasValues reports whether something in such a request may be sealed.
func (h handling) hasValues() bool {
	switch h {
	case tuples, updates, upserts, calls:
		return true
	}
	return false
}

// handlings is the table. What is not in it passes, and its reply is opened: the server refuses what it does not know,
// and newer servers' requests are for newer things.
var handlings = [wire.WatchOnce + 1]handling{
	wire.Ping:          pings,
	wire.Watch:         oneWay,
	wire.Unwatch:       oneWay,
	wire.Join:          replicate,
	wire.Subscribe:     replicate,
	wire.FetchSnapshot: replicate,
	wire.Register:      replicate,
	wire.JoinMeta:      replicate,
	wire.JoinSnapshot:  replicate,
	wire.Raft:          replicate,
	wire.RaftPromote:   replicate,
	wire.RaftDemote:    replicate,
	wire.RaftConfirm:   replicate,
	wire.RaftRollback:  replicate,
	wire.ID:            features,
	wire.Auth:          logsIn,
	wire.Begin:         transactions,
	wire.Commit:        transactions,
	wire.Rollback:      transactions,
	wire.Select:        inOrder,
	wire.Delete:        inOrder,
	wire.Execute:       sql,
	wire.Prepare:       sql,
	wire.Insert:        tuples,
	wire.Replace:       tuples,
	wire.Update:        updates,
	wire.Upsert:        upserts,
	wire.Call:          calls,
	wire.Call16:        calls,
	wire.Eval:          calls,
}

func handlingOf(t wire.Type) handling {
	if t < wire.Type(len(handlings)) {
		return handlings[t]
	}
	return passes
}

// guardedNames are what Stats counts guarded requests by.
var guardedNames = []string{"splice", "sql", "magic", "shift"}

// Features of the protocol that change what tuples and arguments look like on the wire, so
// that values in them would not be found, by their numbers: tuples as extensions in replies to
// requests for data (7) and to calls (8) and in arguments (9), and Arrow (12). What was invented
// after those is not known here.
func understands(feature uint64) bool {
	switch feature {
	case 7, 8, 9:
		return false
	}
	return feature < 12
}

// withoutFeatures gives a frame, in a buffer of the pool's, that names only features that we
// understand; nil when there are no others.
func withoutFeatures(b []byte, body *wire.Body) []byte {
	if body.Features.Len == 0 {
		return nil
	}
	spans, _, err := wire.Elements(nil, b, body.Features.At, maxFeatures)
	if err != nil {
		return nil
	}
	var kept []uint64
	for _, at := range spans {
		if n, ok := wire.Uint(at.Of(b)); ok && understands(n) {
			kept = append(kept, n)
		}
	}
	if len(kept) == len(spans) {
		return nil
	}
	out := append(wire.BeginFrame(gateway.GetBuffer(len(b)+64)), b[:body.Features.At]...)
	out = wire.AppendUints(out, kept)
	return wire.FinishFrame(append(out, b[body.Features.End():]...), 0)
}

// maxFeatures is more than there are.
const maxFeatures = 1024
