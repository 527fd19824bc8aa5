package store

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Access is a store as far as a user with few rights may look into it: single values, and the
// dictionaries that they name. Close it after use.
type Access interface {
	// Name is what the store is called, without credentials.
	Name() string
	Shelf() Shelf
	// Value reads one value, past any gateway. Its errors are explained.
	Value(ctx context.Context, a Address) ([]byte, error)
	// Explain names the store in an error of it, and adds what helps against it. Errors of a class
	// get that; see ErrUnreachable.
	Explain(err error) error
	Close()
}

// Address is where one value lies.
type Address struct {
	Space string // of tuples
	Key   string // of tuples: JSON, a list if it has several parts
	Field string // of a hash or tuple; "": the key's own value
}

// Store is a store whose values are walked, and replaced where nobody has changed them meanwhile. It
// stands for all primaries of a cluster.
//
//	Store -> Target, a space on a node: a database of Redis, a space of Tarantool
//
// Redis and Tarantool have all of it. MongoDB has none: servers there compress what they store
// themselves, and Cinch only what crosses the wire, in frames that name no stored dictionary. So
// internal/store/mongo has what plan asks (collections, documents, what was counted), and
// implements no interface of this package.
type Store interface {
	Access
	// Dicts are the dictionaries that the walk's values name. What is published there is put into
	// nodes that are connected later, too, before values are.
	Dicts() Dicts
	// Targets are what there was to walk when the store was opened.
	Targets() []Target
	// Moved reports that values may have moved past a walk over these targets: open the store again.
	Moved(ctx context.Context) bool
	// Sealing says which of the values may be sealed, and by which rules.
	Sealing(rules *policy.Policy) Sealing
	// Lease lets one of several do something in the store at a time, in the name of holder,
	// which nobody else has.
	Lease(name, holder string) Lease
	// Pause has nobody pack the store.
	Pause() Pause
	// Writer is the one user whose values it holds, "" for the server's default user. It reports false when
	// they may be of several, who may not see each other's, or it can't be found out. The user that the
	// store itself logs in with does not count, unless there is no other.
	Writer(ctx context.Context) (login string, one bool)
	// CanRead says why values can't be read with some options; nil: they can.
	CanRead(o ReadOptions) error
	// Unavailable reports that after an error trying again makes sense.
	Unavailable(err error) bool
	// MemorySetting is the server's own name for its limit of memory.
	MemorySetting() string
}

// Node is one server.
type Node interface {
	Name() string
	RunID(ctx context.Context) (string, error) // changes when positions lose their meaning
	Memory(ctx context.Context) (Memory, error)
	Ping(ctx context.Context) error
}

// Space is one database of a node, or one space of its tuples.
type Space interface {
	Name() string                            // with the node's: what it is called in messages
	DB() string                              // as rules name it
	Keys(ctx context.Context) (int64, error) // how many there are, about
	// Page takes a step of a scan from a cursor, "" at the beginning. What is there all the time
	// is found once at least; a step may find nothing. A client's connections may be to an earlier process of the server or to a later
	// one, without an error in between, so a cursor that lasts for one process only goes with that one's RunID.
	Page(ctx context.Context, cursor string, o ScanOptions) (Page, error)
	Share(cursor string) float64 // of the space that a cursor has behind it
	// Read passes on the values at keys, or why they were left out.
	Read(ctx context.Context, keys [][]byte, o ReadOptions, emit func(*Value) error) error
	// Again reads values that were read before. Those that are gone are left out.
	Again(ctx context.Context, values []*Value) ([]*Value, error)
	// Replace puts new values in the place of those that were read, unless they are others by now:
	// there is an outcome for each. Type and expiry stay.
	Replace(ctx context.Context, changes []Change) ([]Outcome, error)
	// Rebuild brings what lies at keys into the form that small values allow, and returns for
	// how many it did.
	Rebuild(ctx context.Context, keys [][]byte) (int, error)
	// Usage is the bytes that the server says are taken at keys; 0 where it does not say.
	Usage(ctx context.Context, keys [][]byte) ([]int64, error)
}

// Target is a space and the node that it is on.
type Target struct {
	Node  Node
	Space Space
}

// Sealing says what rules mean for the values of a store.
type Sealing struct {
	// Rule finds the rule for a value of a size; nil: the policy itself does.
	Rule func(db string, v *Value, size int) *policy.Rule
	// Indexed reports that a hash has to stay plain, since a search index reads it; nil: none has.
	Indexed func(key []byte) bool
	// Doubt says why more is left alone than need be; nil, and what returns nil: it is not.
	Doubt func() error
}

// Lease lets one of several do something in a store at a time, and pause together between. It is
// no lock: a holder that is cut off from the store may go on for a while beside another. So it is
// only for work that may be done twice.
type Lease interface {
	// Take makes it the holder's turn for a time, and returns 0. While it is another's turn,
	// or there is a pause, it returns after what time to ask again.
	Take(ctx context.Context, hold time.Duration) (wait time.Duration, err error)
	// Keep makes the turn last for a time from now. It reports false when it is no longer
	// the holder's.
	Keep(ctx context.Context, hold time.Duration) (bool, error)
	// Finish ends the turn. With a pause nobody's turn begins before that is over.
	Finish(ctx context.Context, pause time.Duration) error
}

// Pause is an operator's word that nobody is to pack in a store until it is taken back. It stands
// beside the store's leases, for all who take turns there, whatever their rules, and does not expire.
type Pause interface {
	// Set pauses from at on, unless it is paused already, and returns since when it is.
	Set(ctx context.Context, at time.Time) (since time.Time, err error)
	// Clear takes it back.
	Clear(ctx context.Context) error
	// Get reports whether it is paused, and since when: the zero time where nobody can tell.
	Get(ctx context.Context) (since time.Time, paused bool, err error)
}
