// Package store defines what the kinds of stores (Redis, Tarantool) have in common: connections past any gateway
// (Access, Store), walks over stored values and their replacement (Node, Space, Value, Change), and dictionaries
// (Dicts, DictAdmin).
//
//	store.go          the interfaces of a store, its nodes, spaces and scans, leases, the pause of packing; a server's
//	                  counters, and the only user that may have written its values
//	value.go          a value, and a change of it
//	dicts.go          the interfaces of dictionaries, for gateways and for administrators; without a store behind them,
//	                  or without writing
//	hashpart.go       dividing keys among workers by a hash
//	lookuplimiter.go  limits on lookups
//	errors.go         classes of errors, hints, and refusing a store's address that leads to a gateway
package store

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Access reads single values and the dictionaries that they name. Few rights are enough for it. Close it after use.
type Access interface {
	// Name returns the store's name, without credentials.
	Name() string
	DictAdmin() DictAdmin
	// Value reads one value directly from the server, past any gateway. Its errors have been through Explain.
	Value(ctx context.Context, a Address) ([]byte, error)
	// Explain adds the store's name and a hint to one of its errors, and its class if it has one; see
	// ErrUnreachable.
	Explain(err error) error
	Close()
}

// Address names the place of one value.
type Address struct {
	Space string // of a tuple
	Key   string // of a tuple: JSON, a list if the key has several parts
	Field string // of a hash or tuple; "": the key's own value
}

// Store walks over stored values, and replaces those that have not changed meanwhile. It represents all primaries of a
// cluster.
//
//	Store -> Target, a space on a node: a database of Redis, a space of Tarantool
//
// Redis and Tarantool implement all of it, MongoDB nothing. MongoDB servers compress what they store
// themselves; Cinch compresses only what crosses the wire, in frames that name no stored dictionary. Package
// internal/store/mongo has what plan needs (collections, documents, counters) and implements no interface of
// this package.
type Store interface {
	Access
	// Dicts returns the dictionaries that the walk's values name. A published dictionary is also stored in each node
	// that is connected later, before any value is.
	Dicts() Dicts
	// Targets returns the targets that existed when the store was opened.
	Targets() []Target
	// Part returns the targets that may hold keys of one of several workers, numbered from 1, and a function that
	// reports whether a key is that worker's; nil: all are. Each key belongs to one worker, to whichever node it
	// moves. From then on Moved and the nodes' RunID ignore what moves among the keys of other workers.
	Part(worker, workers int) (targets []Target, own func(key []byte) bool)
	// Moved reports whether a walk over these targets may have missed values because they moved between nodes
	// meanwhile. If so, open the store again and repeat the walk. An error means that it is unknown.
	Moved(ctx context.Context) (bool, error)
	// CompressionRules returns which of the values may be compressed, and by which rules.
	CompressionRules(rules *policy.Policy) CompressionRules
	// Lease returns a lease that one holder at a time can have. holder must be unique.
	Lease(name, holder string) Lease
	// Pause returns the switch that stops packing in the store.
	Pause() Pause
	// Writers returns which users may have written the values. The user that the store itself logs in with does not
	// count unless there is no other.
	Writers(ctx context.Context) Writers
	// CanRead returns nil if values can be read with these options, or the reason why not.
	CanRead(o ReadOptions) error
	// Unavailable reports whether a retry makes sense after an error.
	Unavailable(err error) bool
	// MemorySetting returns the server's own name for its memory limit.
	MemorySetting() string
}

// Node is one server.
type Node interface {
	Name() string
	RunID(ctx context.Context) (string, error) // changes when scan cursors become invalid
	Memory(ctx context.Context) (Memory, error)
	Ping(ctx context.Context) error
}

// Space is one database of a node, or one space of tuples.
type Space interface {
	Name() string                            // the node's name included, for messages
	DB() string                              // name of the database or space in rules
	Keys(ctx context.Context) (int64, error) // approximate number of keys
	// Page takes one step of a scan from a cursor, "" at the beginning. A key that exists throughout the scan is
	// found at least once; a step may find nothing. The server may restart between two steps without an error,
	// since the client reconnects by itself. So pass a cursor that is valid for one process only together with that
	// process's RunID.
	Page(ctx context.Context, cursor string, o ScanOptions) (Page, error)
	Share(cursor string) float64 // share of the space before the cursor
	// Read calls emit with each value at keys, or with the reason why it was left out.
	Read(ctx context.Context, keys [][]byte, o ReadOptions, emit func(*Value) error) error
	// Reread reads the current content of values that were read before. It leaves out those that are gone.
	Reread(ctx context.Context, values []*Value) ([]*Value, error)
	// Replace replaces values that were read, unless they have changed since. It returns one outcome for each
	// change. Type and expiry stay.
	Replace(ctx context.Context, changes []Change) ([]Outcome, error)
	// Rebuild converts the hashes at keys to the server's compact encoding, if they fit it, and returns how many it
	// converted.
	Rebuild(ctx context.Context, keys [][]byte) (int, error)
	// Usage returns the bytes that the server reports for each key; 0 if it reports none.
	Usage(ctx context.Context, keys [][]byte) ([]int64, error)
}

// Target is a space and its node.
type Target struct {
	Node  Node
	Space Space
}

// CompressionRules describes what rules mean for the values of a store.
type CompressionRules struct {
	// Rule returns the rule for a value of a size. Nil: use the policy's own Lookup.
	Rule func(db string, v *Value, size int) *policy.Rule
	// Indexed reports whether a hash must stay uncompressed because a search index reads it; nil: none must.
	Indexed func(key []byte) bool
	// Incomplete returns why some values are left uncompressed without need, or nil if none are. It may be nil.
	Incomplete func() error
}

// Lease lets one holder at a time do some work in a store, with a pause after each turn that applies to all. It is
// not a lock: a holder that is cut off from the store may continue for a while after another has taken over. So it
// is only for work that may be done twice.
type Lease interface {
	// Acquire takes the lease for the time hold and returns 0. During another holder's turn, or a pause, it returns
	// how long to wait before the next attempt.
	Acquire(ctx context.Context, hold time.Duration) (wait time.Duration, err error)
	// Renew extends the lease to the time hold from now. It reports false if the holder has lost it.
	Renew(ctx context.Context, hold time.Duration) (bool, error)
	// Release gives the lease back. No holder can acquire it before the pause is over.
	Release(ctx context.Context, pause time.Duration) error
}

// Pause is an operator's switch that stops all packing in a store until it is cleared. It is stored beside
// the store's leases, applies to every packer there whatever its rules, and does not expire.
type Pause interface {
	// Set starts a pause at the time at, unless the store is paused already, and returns the start of the pause.
	Set(ctx context.Context, at time.Time) (since time.Time, err error)
	// Clear ends the pause.
	Clear(ctx context.Context) error
	// Get reports whether the store is paused, and since when; the zero time if that is unknown.
	Get(ctx context.Context) (since time.Time, paused bool, err error)
}

// ScanOptions configure one step of a scan.
type ScanOptions struct {
	Count int    // approximate number of keys
	Match string // a pattern for the server to choose keys by; "": all
	Kind  string // a type for the server to choose keys by; "": all
	RunID string // of the node that returned the cursor, or Page returns ErrRestarted; "": not checked
	Read  ReadOptions
}

// A Page is the result of one step of a scan.
type Page struct {
	Keys [][]byte
	// Values are the values at Keys, in the same order, if the scan returns them anyway. Nil: they must be
	// read.
	Values []*Value
	// Next is the cursor of the next step, opaque to callers; "" at the end.
	Next string
}

// Activity holds a server's own counters since its start.
type Activity struct {
	Uptime float64 // seconds
	Reads  float64 // of values that existed
	Writes float64 // calls of commands that carry values
	Keys   float64 // number of keys, not a counter; 0: unknown
}
