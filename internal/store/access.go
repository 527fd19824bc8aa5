package store

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Access reads from a store what a user with few rights may read: single values, and the dictionaries that
// they name. Close it after use.
type Access interface {
	// Name returns the store's name, without credentials.
	Name() string
	DictAdmin() DictAdmin
	// Value reads one value directly from the server, past any gateway. Its errors are explained.
	Value(ctx context.Context, a Address) ([]byte, error)
	// Explain adds the store's name to one of its errors, and a hint on what helps. An error that belongs to
	// a class gets that class; see ErrUnreachable.
	Explain(err error) error
	Close()
}

// Address names the place of one value.
type Address struct {
	Space string // of a tuple
	Key   string // of a tuple: JSON, a list if the key has several parts
	Field string // of a hash or tuple; "": the key's own value
}

// Store is a store whose values are walked, and replaced if they have not changed meanwhile. It represents
// all primaries of a cluster.
//
//	Store -> Target, a space on a node: a database of Redis, a space of Tarantool
//
// Redis and Tarantool implement all of it, MongoDB nothing. MongoDB servers compress what they store
// themselves; Cinch compresses only what crosses the wire, in frames that name no stored dictionary. Package
// internal/store/mongo has what plan needs (collections, documents, counters) and implements no interface of
// this package.
type Store interface {
	Access
	// Dicts returns the dictionaries that the walk's values name. A published dictionary is also put into
	// nodes that are connected later, before values are.
	Dicts() Dicts
	// Targets returns the targets that existed when the store was opened.
	Targets() []Target
	// Moved reports whether values may have moved past a walk over these targets. If so, open the store
	// again. An error means that it is unknown.
	Moved(ctx context.Context) (bool, error)
	// CompressionRules returns which of the values may be compressed, and by which rules.
	CompressionRules(rules *policy.Policy) CompressionRules
	// Lease returns a lease by which one holder at a time does something in the store. holder must be unique.
	Lease(name, holder string) Lease
	// Pause returns the switch that stops packing in the store.
	Pause() Pause
	// SoleWriter returns the one user whose values the store holds, "" for the server's default user. one is
	// false if several users may have written values, or if that is unknown: no user may learn of another's.
	// The user that the store itself logs in with does not count unless there is no other.
	SoleWriter(ctx context.Context) (login string, one bool)
	// CanRead returns why values can't be read with some options, or nil if they can.
	CanRead(o ReadOptions) error
	// Unavailable reports whether a retry makes sense after an error.
	Unavailable(err error) bool
	// MemorySetting returns the server's own name for its memory limit.
	MemorySetting() string
}

// Node is one server.
type Node interface {
	Name() string
	RunID(ctx context.Context) (string, error) // changes when positions lose their meaning
	Memory(ctx context.Context) (Memory, error)
	Ping(ctx context.Context) error
}

// Space is one database of a node, or one space of tuples.
type Space interface {
	Name() string                            // the node's name included, for messages
	DB() string                              // as rules name it
	Keys(ctx context.Context) (int64, error) // approximate number of keys
	// Page takes one step of a scan from a cursor, "" at the beginning. A key that exists throughout the scan
	// is found at least once; a step may find nothing. Connections of the client may lead to an earlier or a
	// later process of the server, with no error in between. So a cursor that is valid for one process only
	// must be passed with that process's RunID.
	Page(ctx context.Context, cursor string, o ScanOptions) (Page, error)
	Share(cursor string) float64 // share of the space before the cursor
	// Read emits the values at keys, or the reasons why they were left out.
	Read(ctx context.Context, keys [][]byte, o ReadOptions, emit func(*Value) error) error
	// Reread reads values anew that were read before. It leaves out those that are gone.
	Reread(ctx context.Context, values []*Value) ([]*Value, error)
	// Replace replaces values that were read, unless they have changed since. It returns one outcome for each
	// change. Type and expiry stay.
	Replace(ctx context.Context, changes []Change) ([]Outcome, error)
	// Rebuild converts what lies at keys to the form that the server uses for small values, and returns for
	// how many keys it did.
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
	// Rule finds the rule for a value of a size; nil: the policy does.
	Rule func(db string, v *Value, size int) *policy.Rule
	// Indexed reports whether a hash must stay uncompressed because a search index reads it; nil: none must.
	Indexed func(key []byte) bool
	// Incomplete returns why more values are left alone than necessary, or nil if none are. A nil Incomplete means
	// none.
	Incomplete func() error
}

// Lease lets one holder at a time do something in a store, with a common pause between turns. It is not a
// lock: a holder that is cut off from the store may continue for a while beside another. So it is only for
// work that may be done twice.
type Lease interface {
	// Acquire takes the turn for a time and returns 0. During another holder's turn, or a pause, it returns
	// after what time to try again.
	Acquire(ctx context.Context, hold time.Duration) (wait time.Duration, err error)
	// Renew extends the turn to a time from now. It reports false if the holder has lost the turn.
	Renew(ctx context.Context, hold time.Duration) (bool, error)
	// Release ends the turn. No turn begins before the pause is over.
	Release(ctx context.Context, pause time.Duration) error
}

// Pause is an operator's switch that stops all packing in a store until it is cleared. It is stored beside
// the store's leases, applies to every packer there whatever its rules, and does not expire.
type Pause interface {
	// Set pauses from at on unless the store is paused already, and returns the start of the pause.
	Set(ctx context.Context, at time.Time) (since time.Time, err error)
	// Clear ends the pause.
	Clear(ctx context.Context) error
	// Get reports whether the store is paused, and since when; the zero time if that is unknown.
	Get(ctx context.Context) (since time.Time, paused bool, err error)
}
