package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
)

// Dicts keeps dictionaries, and records about them, beside the values that name them: in every node that such
// values may move to. It is for code that compresses. It is safe for concurrent use.
type Dicts interface {
	// Dictionaries finds a dictionary by its number. The error wraps envelope.ErrDictMissing when the store has
	// none.
	envelope.Dictionaries
	// Publish stores dictionaries and reads them back. It returns no error for one that new values must not name;
	// ask Ready.
	Publish(ctx context.Context, dicts ...*codec.Dict) error
	// Ready reports whether values stored now may name the dictionary. It does not block.
	Ready(number uint32) bool
	// Retired reports whether the dictionary was retired, so that no new value may name it.
	Retired(number uint32) bool
	// Recheck checks what the store holds, and restores what it has lost.
	Recheck(ctx context.Context) error
	// DictCost returns about how many bytes a node needs for a dictionary and the record that names it.
	DictCost(d *codec.Dict) float64
	// Run calls Recheck at once and periodically, until ctx ends.
	Run(ctx context.Context)

	// Record returns the text stored under a name, and its version; "" and 0 if there is none.
	Record(ctx context.Context, name string) (text string, version uint64, err error)
	// ReplaceRecord stores a new text and returns its version, or 0 if the given version is no longer the
	// current one.
	ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error)
}

// ReadyNow is like Ready, but if that is false it first calls Recheck, which may take up to timeout.
func ReadyNow(ctx context.Context, d Dicts, number uint32, timeout time.Duration) bool {
	if d.Ready(number) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.Recheck(ctx) == nil && d.Ready(number)
}

// PublishByNumber publishes dictionaries that values are about to name.
func PublishByNumber(ctx context.Context, d Dicts, numbers ...uint32) error {
	for _, number := range numbers {
		x, err := d.Dictionary(number)
		if err != nil {
			return fmt.Errorf("dictionary %08x: %w", number, err)
		}
		if err := d.Publish(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// DictAdmin gives an administrator access to the dictionaries of all nodes of a store, whatever their state. Its
// errors have been through Access.Explain.
type DictAdmin interface {
	envelope.Dictionaries
	// Name returns the nodes' names, or only the server's name until the other nodes have been looked up.
	Name() string
	// List lists each dictionary once. If some nodes have it in another state or not at all, its Problem says
	// so.
	List(ctx context.Context) ([]DictInfo, error)
	// Records returns the records of all nodes.
	Records(ctx context.Context) ([]Record, error)
	// DeleteRecord removes a record from its node, unless still returns false for the record's current text. It
	// reports whether it removed the record.
	DeleteRecord(ctx context.Context, r Record, still func(text string) bool) (bool, error)

	// Count counts the values that name each dictionary. It misses values that move during the scan.
	Count(ctx context.Context) (map[uint32]int, error)
	// Collect archives those of the dictionaries that no value names. It retires them first, and waits until all
	// gateways have learnt of that.
	Collect(ctx context.Context, o CollectOptions, numbers []uint32) ([]Collected, error)
	// Restore makes a dictionary live in all nodes, whatever its state was.
	Restore(ctx context.Context, d *codec.Dict) error
	// Forget erases an archived dictionary from all nodes: values that name it are lost.
	Forget(ctx context.Context, number uint32) error

	// Spread copies to each node the dictionaries that it lacks and others hold, and calls tell for each copy. If
	// there was nothing to copy, nothing is the reason.
	Spread(ctx context.Context, tell func(number uint32, node string)) (nothing string, err error)
	// Missing returns the nodes that lack any of the given dictionaries, which stored values name. It returns none
	// for a store of one node.
	Missing(ctx context.Context, numbers []uint32) ([]MissingDict, error)
}

// State is the state of a dictionary. Values that name it can be decompressed in every state.
type State string

// The states.
const (
	Live     State = "live"
	Retired  State = "retired"  // kept, but new values must not name it
	Archived State = "archived" // moved away; readers still find it
)

// DictInfo describes a dictionary in a store.
type DictInfo struct {
	Number  uint32
	SHA256  string // of the content, hexadecimal; "": unknown
	Bytes   int    // of the content
	Place   string // where it is stored
	State   State
	Problem string // not empty: why it can't be used, or not on all nodes
	Mixed   bool   // other nodes have it in another state
}

// IsArchived reports whether the dictionary is archived in all nodes that have it.
func (i *DictInfo) IsArchived() bool { return i.State == Archived && !i.Mixed }

// NodeDicts lists the dictionaries of one node.
type NodeDicts struct {
	Name string
	List []DictInfo
}

// MergeDicts merges the lists of several nodes. kind is the plural noun for the nodes in messages.
func MergeDicts(kind string, nodes []NodeDicts) []DictInfo {
	if len(nodes) == 1 {
		return nodes[0].List
	}
	var all []DictInfo
	at, holders := map[uint32]int{}, map[uint32]int{}
	for _, n := range nodes {
		for _, i := range n.List {
			if first, listed := at[i.Number]; !listed {
				at[i.Number] = len(all)
				all = append(all, i)
			} else if d := &all[first]; d.State != i.State {
				d.Mixed = true
				d.Problem = cmp.Or(d.Problem, fmt.Sprintf("%s in %s", i.State, n.Name))
			}
			holders[i.Number]++
		}
	}
	for i := range all {
		if n := holders[all[i].Number]; n < len(nodes) && all[i].Problem == "" {
			all[i].Problem = fmt.Sprintf("in %d of %d %s only", n, len(nodes), kind)
		}
	}
	return all
}

// Record is a text stored beside the dictionaries of a node.
type Record struct {
	Name, Text string
	Node       int
}

// CollectOptions configure Collect.
type CollectOptions struct {
	Wait time.Duration                    // for gateways to learn of a retirement; 0: DefaultWait
	Tell func(format string, args ...any) // progress messages; nil: none
}

// DefaultLease limits how long a gateway that is cut off may continue to name a dictionary that was retired
// meanwhile.
const DefaultLease = 2 * time.Minute

// DefaultWait is DefaultLease plus 30 s for commands under way.
const DefaultWait = DefaultLease + 30*time.Second

// Collected is the result of collecting one dictionary.
type Collected struct {
	Number   uint32
	Archived bool
	Values   int    // that name it; if any, it stays live
	Reason   string // why it stays live, if not because of Values
}

// MissingDict is a node without a dictionary that is named by values which may move there.
type MissingDict struct {
	Node   string
	Number uint32
}

// MemoryDicts returns the dictionaries of local, with no store behind them.
func MemoryDicts(local *dict.Set) envelope.Dictionaries { return memoryDicts{local} }

type memoryDicts struct{ local *dict.Set }

func (h memoryDicts) Dictionary(number uint32) (*codec.Dict, error) {
	if d, ok := h.local.Get(number); ok {
		return d, nil
	}
	return nil, envelope.ErrDictMissing
}

// DryRun returns d without side effects: Publish adds to local only, and nothing is written to the store.
func DryRun(d Dicts, local *dict.Set) Dicts { return &dryRun{d, local} }

type dryRun struct {
	Dicts
	local *dict.Set
}

func (d *dryRun) Publish(_ context.Context, dicts ...*codec.Dict) error {
	for _, x := range dicts {
		if err := d.local.Add(x); err != nil {
			return err
		}
	}
	return nil
}

func (d *dryRun) Ready(uint32) bool   { return true }
func (d *dryRun) Retired(uint32) bool { return false }

func (d *dryRun) Record(context.Context, string) (string, uint64, error) { return "", 0, nil }

func (d *dryRun) ReplaceRecord(_ context.Context, _ string, version uint64, _ string) (uint64, error) {
	return version + 1, nil
}
