package tarantool

import (
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// handling selects how the gateway handles a request.
type handling uint8

const (
	passThrough      handling = iota // forwarded unchanged; the reply is decompressed
	ping                             // a keep-alive, or the question whether this is a gateway (wire.GatewayQuestion)
	noReply                          // forwarded unchanged; there is no reply
	replication                      // switches the connection to the replication protocol
	protocolFeatures                 // negotiates protocol features

	// These have a place in their queue (streamqueues.go): they read, write or run something, and the server first
	// checks the stamp of each.
	auth         // a login
	transactions // beginning or end of a transaction
	ordered      // not rewritten, except that it may get a stamp
	sql          // an SQL statement
	tuples       // has a tuple, some of whose fields are compressed
	updates      // has operations on fields
	upserts      // has a tuple and operations
	calls        // has arguments of a stored function or of Lua code
)

// hasValues reports whether such a request may contain values to compress.
func (h handling) hasValues() bool {
	switch h {
	case tuples, updates, upserts, calls:
		return true
	}
	return false
}

// handlings maps types of requests to handlings. All other types are passThrough: the server refuses types that it does
// not know.
var handlings = [wire.WatchOnce + 1]handling{
	wire.Ping:          ping,
	wire.Watch:         noReply,
	wire.Unwatch:       noReply,
	wire.Join:          replication,
	wire.Subscribe:     replication,
	wire.FetchSnapshot: replication,
	wire.Register:      replication,
	wire.JoinMeta:      replication,
	wire.JoinSnapshot:  replication,
	wire.Raft:          replication,
	wire.RaftPromote:   replication,
	wire.RaftDemote:    replication,
	wire.RaftConfirm:   replication,
	wire.RaftRollback:  replication,
	wire.ID:            protocolFeatures,
	wire.Auth:          auth,
	wire.Begin:         transactions,
	wire.Commit:        transactions,
	wire.Rollback:      transactions,
	wire.Select:        ordered,
	wire.Delete:        ordered,
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
	return passThrough
}

// guardedNames lists the reasons that Stats.Guarded counts.
var guardedNames = []string{"splice", "sql", "magic", "shift"}

// isSupported reports whether the gateway supports a protocol feature, given by its number. It supports none that
// changes the encoding of tuples and arguments, since it would not find the values in them: tuples as extensions in
// replies to requests for data (7) and to calls (8) and in arguments (9), and Arrow (12). Later features are unknown.
func isSupported(feature uint64) bool {
	switch feature {
	case 7, 8, 9:
		return false
	}
	return feature < 12
}

// withoutFeatures returns the frame without the features that the gateway does not understand, in a pooled
// buffer, or nil if there are none to remove.
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
		if n, ok := wire.Uint(at.Of(b)); ok && isSupported(n) {
			kept = append(kept, n)
		}
	}
	if len(kept) == len(spans) {
		return nil
	}
	out := append(wire.BeginFrame(memory.GetBuffer(len(b)+64)), b[:body.Features.At]...)
	out = wire.AppendUints(out, kept)
	return wire.FinishFrame(append(out, b[body.Features.End():]...), 0)
}

// maxFeatures limits the features in a frame. There are far fewer.
const maxFeatures = 1024
