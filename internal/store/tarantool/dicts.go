package tarantool

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// ErrForeign: what the server holds under a dictionary's number is not that dictionary.
var ErrForeign = errors.New("not the dictionary with that number")

// errServerChanged: the connection led to another server after a check than before.
var errServerChanged = errors.New("the connection has moved to another server meanwhile")

// ErrNotArchived: the dictionary to be erased is live or retired in some shard, or missing.
var ErrNotArchived = errors.New("not an archived dictionary of this server")

// State is the state of a dictionary. In every state it opens values.
type State = store.State

// The states.
const (
	Live     = store.Live
	Retired  = store.Retired
	Archived = store.Archived
)

// forgotten is the state in the mark that an erased dictionary leaves: its tuple without the content. The mark
// keeps gateways, which restore missing dictionaries, from restoring this one. To readers the dictionary is
// missing.
const forgotten State = "forgotten"

// DictInfo describes a dictionary in the server.
type DictInfo struct {
	Number  uint32
	Hash    string // SHA-256 of the content, hexadecimal
	Bytes   int
	State   State
	Created time.Time
}

const (
	dictTimeout = 5 * time.Second
	dictPeriod  = 30 * time.Second   // between checks that all are still stored
	dictLease   = store.DefaultLease // time after a check for which new values may name what it found
	missTTL     = 2 * time.Second    // time for which a missing one is not looked up again
)

// Dicts keeps dictionaries in a space of the server whose values name them. So they get into its snapshots
// and to its replicas before those values do. It is safe for concurrent use.
type Dicts struct {
	records
	conn  *Conn
	local *dict.Set

	lookups store.LookupLimiter

	wake chan struct{}          // capacity 1
	ioMu sync.Mutex             // locked while the server is checked or written
	mu   sync.Mutex             // guards kept; never locked while the server is asked
	kept map[uint32]*codec.Dict // published or fetched, restored if lost

	lastCheck atomic.Pointer[checkResult] // replaced as a whole
}

// checkResult is the result of a check.
type checkResult struct {
	until  time.Time
	states map[uint32]State
	marked map[uint32]bool // forgotten
}

// NewDicts returns a Dicts that has not asked the server for anything yet. Fetched dictionaries are added to
// local; nil: a new set.
func NewDicts(conn *Conn, local *dict.Set) *Dicts {
	if local == nil {
		local = new(dict.Set)
	}
	d := &Dicts{records: records{conn}, conn: conn, local: local, wake: make(chan struct{}, 1), kept: make(map[uint32]*codec.Dict)}
	d.lookups = store.LookupLimiter{TTL: missTTL, IsAnswer: func(err error) bool { return errors.Is(err, ErrForeign) }}
	d.lastCheck.Store(&checkResult{})
	return d
}

// Dictionary implements envelope.Dictionaries: from memory, or from the server. The error wraps
// envelope.ErrDictMissing when the server has none; after any other error it is unknown whether there is one.
func (d *Dicts) Dictionary(number uint32) (*codec.Dict, error) {
	if x, ok := d.local.Get(number); ok {
		return x, nil
	}
	return d.lookups.Do(number, func() (*codec.Dict, error) {
		if x, ok := d.local.Get(number); ok {
			return x, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), dictTimeout)
		defer cancel()
		x, err := d.fetch(ctx, number)
		if err != nil {
			return nil, err
		}
		return x, d.keep(x)
	})
}

// LimitLookups limits lookups of numbers that don't exist. It is for gateways, whose clients could make up any
// number of them.
func (d *Dicts) LimitLookups() {
	d.lookups.Numbers = func() (map[uint32]struct{}, error) {
		ctx, cancel := context.WithTimeout(context.Background(), dictTimeout)
		defer cancel()
		list, err := d.List(ctx)
		all := make(map[uint32]struct{}, len(list))
		for _, i := range list {
			all[i.Number] = struct{}{}
		}
		return all, err
	}
}

// forConn returns the Dicts of another server, with the same local set and limit.
func (d *Dicts) forConn(conn *Conn) *Dicts {
	other := NewDicts(conn, d.local)
	if d.lookups.Numbers != nil {
		other.LimitLookups()
	}
	return other
}

// fetch asks the server, and checks the hash of the answer.
func (d *Dicts) fetch(ctx context.Context, number uint32) (*codec.Dict, error) {
	var answer []string
	if err := d.conn.call(ctx, dictsFunction, []any{number}, &answer); err != nil {
		return nil, err
	}
	if len(answer) < 2 || answer[0] == "" { // none, or the mark of one that was forgotten
		return nil, fmt.Errorf("%w: %08x", envelope.ErrDictMissing, number)
	}
	x, err := codec.NewDict([]byte(answer[0]))
	if err != nil {
		return nil, fmt.Errorf("%w: %08x: %w", ErrForeign, number, err)
	}
	hash := x.Hash()
	if x.Number() != number || hex.EncodeToString(hash[:]) != answer[1] {
		return nil, fmt.Errorf("%w: %08x", ErrForeign, number)
	}
	return x, nil
}

// keep remembers a dictionary.
func (d *Dicts) keep(x *codec.Dict) error {
	if err := d.local.Add(x); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[x.Number()] = x
	return nil
}

// Publish stores dictionaries and reads them back. It does not store forgotten ones. Storing needs the right to
// call cinch_dictionary_put; dictionaries that are there already need none.
func (d *Dicts) Publish(ctx context.Context, dicts ...*codec.Dict) error {
	return d.publish(ctx, false, dicts...)
}

// publish is Publish. If restore is set it stores forgotten dictionaries too.
func (d *Dicts) publish(ctx context.Context, restore bool, dicts ...*codec.Dict) error {
	d.ioMu.Lock()
	defer d.ioMu.Unlock()
	for _, x := range dicts {
		if err := d.put(ctx, x, restore); err != nil {
			return fmt.Errorf("dictionary %08x: %w", x.Number(), err)
		}
	}
	return d.checkLocked(ctx)
}

func (d *Dicts) put(ctx context.Context, x *codec.Dict, restore bool) error {
	_, err := d.fetch(ctx, x.Number())
	if errors.Is(err, envelope.ErrDictMissing) {
		if stored, err := d.store(ctx, x, restore); err != nil || !stored {
			return err
		}
		_, err = d.fetch(ctx, x.Number())
	}
	if err != nil {
		return err
	}
	d.lookups.Forget(x.Number())
	return d.keep(x)
}

// store stores a dictionary unless it is there. It reports false if the dictionary was forgotten, and is not to
// be restored.
func (d *Dicts) store(ctx context.Context, x *codec.Dict, restore bool) (bool, error) {
	var answer []uint32
	err := d.conn.call(ctx, putFunction, []any{text(x.Content()), restore}, &answer)
	return len(answer) > 0 && answer[0] != 0, err
}

// Ready reports whether values stored now may name the dictionary: a check within the last dictLease has
// found it live. It neither blocks nor allocates.
func (d *Dicts) Ready(number uint32) bool {
	s := d.lastCheck.Load()
	return s.states[number] == Live && time.Now().Before(s.until)
}

// state returns a dictionary's state in the last successful check, "" if it was not found.
func (d *Dicts) state(number uint32) State { return d.lastCheck.Load().states[number] }

// Has reports whether the last check found the dictionary, in any state.
func (d *Dicts) Has(number uint32) bool { return d.state(number) != "" }

// Keep remembers a dictionary that was found elsewhere. The next check stores it in the server.
func (d *Dicts) Keep(x *codec.Dict) error {
	d.lookups.Forget(x.Number())
	return d.keep(x)
}

// Check checks what the server holds.
func (d *Dicts) Check(ctx context.Context) error {
	d.ioMu.Lock()
	defer d.ioMu.Unlock()
	return d.checkLocked(ctx)
}

// storeAs stores a dictionary in the state that it has in another server. The error wraps envelope.ErrDictMissing if
// it was forgotten here.
func (d *Dicts) storeAs(ctx context.Context, x *codec.Dict, s State) error {
	stored, err := d.store(ctx, x, false)
	switch {
	case err != nil:
		return err
	case !stored:
		return fmt.Errorf("%w: %08x", envelope.ErrDictMissing, x.Number())
	case s != Live:
		return d.SetState(ctx, x.Number(), s)
	}
	return d.Check(ctx)
}

// Retired reports whether new values must not name the dictionary.
func (d *Dicts) Retired(number uint32) bool {
	s := d.lastCheck.Load()
	state := s.states[number]
	return state == Retired || state == Archived || s.marked[number]
}

// isForgotten reports whether the last check found the mark of a forgotten dictionary.
func (d *Dicts) isForgotten(number uint32) bool { return d.lastCheck.Load().marked[number] }

// Recheck checks what the server holds, and restores what it has lost. It drops what was forgotten.
func (d *Dicts) Recheck(ctx context.Context) error {
	d.ioMu.Lock()
	defer d.ioMu.Unlock()
	if err := d.checkLocked(ctx); err != nil {
		return err
	}
	lost := false
	states := d.lastCheck.Load().states
	d.mu.Lock()
	kept := maps.Clone(d.kept)
	d.mu.Unlock()
	for number, x := range kept {
		if _, there := states[number]; there {
			continue
		}
		if d.isForgotten(number) {
			d.mu.Lock()
			delete(d.kept, number)
			d.mu.Unlock()
			continue
		}
		lost = true
		if err := d.put(ctx, x, false); err != nil {
			return err
		}
	}
	if !lost {
		return nil
	}
	return d.checkLocked(ctx)
}

// Kick records that the server may be another one, which lacks dictionaries. Ready is false for all of them until
// a check, which Run makes at once, has found them. Kick does not block.
func (d *Dicts) Kick() {
	d.lastCheck.Store(&checkResult{})
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// checkLocked makes a check. ioMu must be held.
func (d *Dicts) checkLocked(ctx context.Context) error {
	before, began := d.lastCheck.Load(), time.Now()
	list, err := d.list(ctx)
	if err != nil {
		return err
	}
	s := &checkResult{until: began.Add(dictLease), states: make(map[uint32]State), marked: make(map[uint32]bool)}
	for _, i := range list {
		if i.State == forgotten {
			s.marked[i.Number] = true
			continue
		}
		s.states[i.Number] = i.State
		d.lookups.Forget(i.Number)
	}
	if !d.lastCheck.CompareAndSwap(before, s) {
		return errServerChanged
	}
	return nil
}

// Run calls Recheck at once, periodically and after each Kick until ctx ends, and retries sooner after a failure.
func (d *Dicts) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := dictPeriod
		if err := d.Recheck(ctx); err != nil {
			wait = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-d.wake:
		}
	}
}

// List returns the dictionaries in the server, by number.
func (d *Dicts) List(ctx context.Context) ([]DictInfo, error) {
	list, err := d.list(ctx)
	return slices.DeleteFunc(list, func(i DictInfo) bool { return i.State == forgotten }), err
}

// list is List with the marks of forgotten dictionaries.
func (d *Dicts) list(ctx context.Context) ([]DictInfo, error) {
	var answer [][]dictRow
	if err := d.conn.call(ctx, dictsFunction, []any{nil}, &answer); err != nil {
		return nil, err
	}
	var list []DictInfo
	for _, all := range answer {
		for _, l := range all {
			list = append(list, DictInfo{l.Number, l.Hash, l.Bytes, State(l.State), time.Unix(l.Created, 0)})
		}
	}
	return list, nil
}

type dictRow struct {
	//lint:ignore U1000 its tag makes msgpack encode a list
	_msgpack struct{} `msgpack:",as_array"`
	Number   uint32
	Hash     string
	Bytes    int
	State    string
	Created  int64
}

// SetState retires or archives a dictionary, or puts it back into use.
func (d *Dicts) SetState(ctx context.Context, number uint32, state State) error {
	var answer []bool
	if err := d.conn.call(ctx, stateFunction, []any{number, string(state)}, &answer); err != nil {
		return err
	}
	if len(answer) != 1 || !answer[0] {
		return fmt.Errorf("%w: %08x", envelope.ErrDictMissing, number)
	}
	return d.Recheck(ctx)
}

// states checks the server and returns the states of its dictionaries.
func (d *Dicts) states(ctx context.Context) (map[uint32]State, error) {
	if err := d.Recheck(ctx); err != nil {
		return nil, err
	}
	return d.lastCheck.Load().states, nil
}

// Restore makes a dictionary live, whether it was retired, archived, forgotten or never stored.
func (d *Dicts) Restore(ctx context.Context, x *codec.Dict) error {
	if err := d.publish(ctx, true, x); err != nil || !d.Retired(x.Number()) {
		return err
	}
	return d.SetState(ctx, x.Number(), Live)
}

// mark replaces a dictionary by the mark of a forgotten one. It also sets the mark if there is no dictionary.
func (d *Dicts) mark(ctx context.Context, number uint32) error {
	id, err := spaceNumber(ctx, d.conn, schema.DictSpace)
	if err != nil {
		return err
	}
	mark := []any{number, "", text{}, string(forgotten), uint64(time.Now().Unix())}
	err = d.conn.do(ctx, func(ctx context.Context) tnt.Request { return tnt.NewReplaceRequest(id).Tuple(mark).Context(ctx) }, nil)
	if err != nil {
		return err
	}
	return d.Recheck(ctx)
}
