package tarantool

import wire "github.com/cinch-layer/cinch/internal/wire/iproto"

// handling is what is done with a request.
type handling uint8

const (
	passes    handling = iota // as it came; its reply is opened
	tuples                    // a tuple, some of whose fields are sealed
	updates                   // operations on fields
	upserts                   // a tuple and operations
	calls                     // arguments of a stored function or of Lua
	sql                       // a statement
	features                  // what the client understands
	pings                     // a sign of life, or the question whether this is a gateway
	oneWay                    // nothing answers it
	replicate                 // from here on the connection is another protocol's
)

// commands is the table. What is not in it passes, and its reply is opened: the server refuses
// what it does not know, and newer servers' requests are for newer things.
var commands = map[wire.Type]handling{
	wire.Insert:        tuples,
	wire.Replace:       tuples,
	wire.Update:        updates,
	wire.Upsert:        upserts,
	wire.Call:          calls,
	wire.Call16:        calls,
	wire.Eval:          calls,
	wire.Execute:       sql,
	wire.Prepare:       sql,
	wire.ID:            features,
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
}

// handlingOf is a lookup without a hash for the common ones.
func handlingOf(t wire.Type) handling {
	if t < wire.Type(len(handlings)) {
		return handlings[t]
	}
	return passes
}

var handlings = func() (list [wire.WatchOnce + 1]handling) {
	for t, h := range commands {
		list[t] = h
	}
	return list
}()

// guardedNames are what Stats counts guarded requests by.
var guardedNames = []string{"splice", "sql", "magic", "shift"}
