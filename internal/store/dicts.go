package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
)

// Dicts keeps dictionaries, and records about them, where the values are that name them: in every
// node that such values may move to. It is for those who seal. It is safe for concurrent use.
type Dicts interface {
	// Dictionaries finds one by its number. The error wraps cinch.ErrDictMissing when the store
	// has none.
	cinch.Dictionaries
	// Publish stores dictionaries and reads them back. What is not allowed to be used for
	// new values is no error; Ready tells.
	Publish(ctx context.Context, dicts ...*codec.Dict) error
	// Ready reports that values that are stored now may name the dictionary. It does not block.
	Ready(number uint32) bool
	// Retired reports that someone wants no new values to name the dictionary.
	Retired(number uint32) bool
	// Recheck looks at what the store holds, and puts back what it has lost.
	Recheck(ctx context.Context) error
	// Run does that at once and periodically, until ctx ends.
	Run(ctx context.Context)

	// Record returns a text that was kept under a name, and its version; "" and 0 when
	// there is none.
	Record(ctx context.Context, name string) (text string, version uint64, err error)
	// ReplaceRecord keeps another text and returns its version, or 0 when the version that
	// is given is not the current one any more.
	ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error)
}

// ReadyNow is Ready, and looks again before it says no.
func ReadyNow(ctx context.Context, d Dicts, number uint32, timeout time.Duration) bool {
	if d.Ready(number) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.Recheck(ctx) == nil && d.Ready(number)
}

// PublishNumbers puts dictionaries where values are about to name them.
func PublishNumbers(ctx context.Context, d Dicts, numbers ...uint32) error {
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

// Shelf is the dictionaries of a store as its administrator sees them: those of all nodes, whatever
// they are in use for. Its errors are explained, see Access.
type Shelf interface {
	cinch.Dictionaries
	// Name is what the nodes are called, or the server alone as long as nothing was asked of the others.
	Name() string
	// List lists each dictionary once, with the nodes that have it otherwise or not at all as its
	// problem.
	List(ctx context.Context) ([]DictInfo, error)
	// Records are those of all nodes.
	Records(ctx context.Context) ([]Record, error)
	// DeleteRecord removes a record where it was found, unless its text is another by now of which
	// still says no. It reports whether it did.
	DeleteRecord(ctx context.Context, r Record, still func(text string) bool) (bool, error)

	// Count counts the values that name each dictionary. A scan misses what moves meanwhile.
	Count(ctx context.Context) (map[uint32]int, error)
	// Collect archives those that no value names, after a time in which gateways hear that they
	// are retired.
	Collect(ctx context.Context, o CollectOptions, numbers []uint32) ([]Collected, error)
	// Restore makes a dictionary live in all nodes, whatever it was.
	Restore(ctx context.Context, d *codec.Dict) error
	// Forget erases an archived one from all nodes: values that name it are lost.
	Forget(ctx context.Context, number uint32) error

	// Spread puts onto each node what it lacks of what others hold, and tells. Where that is
	// nothing it says why.
	Spread(ctx context.Context, tell func(number uint32, node string)) (nothing string, err error)
	// Lacking are the nodes without a dictionary, of those that values were found to name. A store
	// of one node lacks none.
	Lacking(ctx context.Context, numbers []uint32) ([]Lack, error)
}

// State says what a dictionary is for. All of them open values.
type State string

// The states.
const (
	Live     State = "live"
	Retired  State = "retired"  // kept, but no new value shall name it
	Archived State = "archived" // moved away, and found by readers still
)

// DictInfo describes a dictionary in a store.
type DictInfo struct {
	Number  uint32
	SHA256  string // of the content, hexadecimal; "": unknown
	Bytes   int    // of the content
	Place   string // what holds it
	State   State
	Problem string // not empty: it can't be used, or not everywhere, and why
	Mixed   bool   // other nodes have it in another state
}

// PutAway reports that the dictionary is archived in all nodes that have it.
func (i *DictInfo) PutAway() bool { return i.State == Archived && !i.Mixed }

// NodeDicts are what one node lists.
type NodeDicts struct {
	Name string
	List []DictInfo
}

// MergeDicts lists what several nodes hold, each once. kind is what the nodes are called.
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

// Record is a text that is kept beside the dictionaries of a node.
type Record struct {
	Name, Text string
	Node       int
}

// CollectOptions say how to collect.
type CollectOptions struct {
	Wait time.Duration                    // how long gateways may take to hear that a dictionary is retired; see DefaultWait
	Tell func(format string, args ...any) // what happens; nil: nobody is told
}

// DefaultLease is for how long a gateway that is cut off may go on naming a dictionary that was
// retired meanwhile.
const DefaultLease = 2 * time.Minute

// DefaultWait is DefaultLease and half a minute for commands that were under way.
const DefaultWait = DefaultLease + 30*time.Second

// Collected says what became of a dictionary that was to be collected.
type Collected struct {
	Number   uint32
	Archived bool
	Values   int    // that name it; then it stays live
	Reason   string // why it stays, beside that
}

// Lack is a node without a dictionary that values name, which may move there.
type Lack struct {
	Node   string
	Number uint32
}
