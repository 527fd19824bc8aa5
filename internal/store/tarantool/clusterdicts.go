package tarantool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarantool/go-iproto"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// ClusterDictsOptions configure which servers belong together.
type ClusterDictsOptions struct {
	// Find lists the shards; the server itself is among them if it is one. Nil: it is alone.
	Find func(context.Context) ([]Shard, error)
	// Connect returns a connection to a shard, with the gateway's own user. It does not block.
	Connect func(Shard) *Conn
	Log     *slog.Logger   // nil: nothing is logged
	Errors  panics.Counter // counts panics; nil: they are only logged
	Period  time.Duration  // between lookups of the shards; 0: 5 s
}

const shardsPeriod = 5 * time.Second

// ClusterDicts is Dicts for a server whose tuples may move to other shards, as vshard's buckets do: with their
// values, but without dictionaries. So a value may name a dictionary only once all shards hold it. A dictionary
// that any shard holds is copied to those that lack it, such as new shards. One that the server itself lacks is
// looked up in the others. ClusterDicts is safe for concurrent use.
type ClusterDicts struct {
	o      ClusterDictsOptions
	own    *Dicts
	wake   chan struct{} // capacity 1
	layout atomic.Pointer[layout]

	finding      sync.Mutex // locked while shards are looked up
	findFailedAt time.Time  // when the lookup last failed

	syncing       sync.Mutex // locked while their contents are checked
	checkedAt     time.Time
	checkedLayout *layout // checked last
	lastLogged    string  // last trouble logged
}

// layout is the result of the last lookup of shards. It does not change.
type layout struct {
	others      []*member // by id
	recordDicts *Dicts    // of the shard with the records, the same for all gateways
}

// member is another shard.
type member struct {
	shard   Shard
	conn    *Conn
	dicts   *Dicts
	failing atomic.Bool // the last lookup in it failed
}

// NewClusterDicts returns the ClusterDicts of a server with the dictionaries own. Run must be called to keep it
// current.
func NewClusterDicts(own *Dicts, o ClusterDictsOptions) *ClusterDicts {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Period <= 0 {
		o.Period = shardsPeriod
	}
	g := &ClusterDicts{o: o, own: own, wake: make(chan struct{}, 1)}
	if o.Find == nil {
		g.layout.Store(&layout{recordDicts: own})
	}
	return g
}

// Lease returns the lease called name in the server; see store.Lease.
func (g *ClusterDicts) Lease(name, holder string) *Lease { return g.own.Lease(name, holder) }

// Pause returns the switch that stops packing in the server.
func (g *ClusterDicts) Pause() *Pause { return g.own.Pause() }

// Close ends the connections to other shards.
func (g *ClusterDicts) Close() {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	g.finding.Lock()
	defer g.finding.Unlock()
	if l := g.layout.Load(); l != nil {
		for _, m := range l.others {
			m.conn.Close()
		}
	}
}

// Dictionary implements envelope.Dictionaries: from the server, or from any other shard.
func (g *ClusterDicts) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := g.own.Dictionary(number)
	if err == nil || errors.Is(err, ErrForeign) {
		return x, err
	}
	l := g.tryLayout()
	if l == nil || len(l.others) == 0 {
		return x, err
	}
	x, elsewhere := g.ask(l, number)
	switch {
	case x != nil:
	case elsewhere != nil && errors.Is(err, envelope.ErrDictMissing):
		return nil, fmt.Errorf("dictionary %08x is not in the server, and not all shards can be reached: %w", number, elsewhere)
	default:
		return nil, err
	}
	if err := g.own.Keep(x); err != nil {
		return nil, err
	}
	g.requestSync() // it must be stored in the server too
	return x, nil
}

// Adopt is Dictionary for a number that rules name. It does not remember a miss, since another gateway may store
// the dictionary at any moment, and values name it from then on.
func (g *ClusterDicts) Adopt(ctx context.Context, number uint32) error {
	if _, ok := g.own.local.Get(number); ok {
		return nil
	}
	x, err := g.own.fetch(ctx, number)
	if err == nil {
		return g.own.Keep(x)
	}
	l := g.tryLayout()
	if errors.Is(err, ErrForeign) || l == nil {
		return err
	}
	for _, m := range l.others {
		if m.failing.Load() {
			continue
		}
		if x, elsewhere := m.fetchWithTimeout(ctx, number); elsewhere == nil {
			g.requestSync() // it must be stored in the server too
			return g.own.Keep(x)
		}
	}
	return err
}

// fetchWithTimeout fetches a dictionary within dictTimeout.
func (m *member) fetchWithTimeout(ctx context.Context, number uint32) (*codec.Dict, error) {
	ctx, cancel := context.WithTimeout(ctx, dictTimeout)
	defer cancel()
	return m.dicts.fetch(ctx, number)
}

// ask looks for a dictionary in the other shards, in parallel. It does not wait for shards in which the last lookup
// failed, but returns an error for them.
func (g *ClusterDicts) ask(l *layout, number uint32) (*codec.Dict, error) {
	found := make([]*codec.Dict, len(l.others))
	errs := make([]error, len(l.others))
	var all sync.WaitGroup
	for i, m := range l.others {
		if m.failing.Load() {
			errs[i] = fmt.Errorf("%w: shard %s", ErrUnreachable, m.shard.ID)
			continue
		}
		all.Go(func() {
			defer panics.Catch(g.o.Log, g.o.Errors, func() { errs[i] = panics.Err })
			found[i], errs[i] = m.dicts.Dictionary(number)
		})
	}
	all.Wait()
	for i, x := range found {
		if x != nil {
			return x, nil
		}
		if errors.Is(errs[i], envelope.ErrDictMissing) {
			errs[i] = nil
		}
	}
	return nil, errors.Join(errs...)
}

// Kick calls Dicts.Kick of the server itself.
func (g *ClusterDicts) Kick() { g.own.Kick() }

// Publish stores dictionaries in all shards and reads them back. It fails if any shard can't be reached.
func (g *ClusterDicts) Publish(ctx context.Context, dicts ...*codec.Dict) error {
	if err := g.own.Publish(ctx, dicts...); err != nil {
		return err
	}
	l, err := g.currentLayout(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(l.others))
	var all sync.WaitGroup
	for i, m := range l.others {
		all.Go(func() {
			defer panics.Catch(g.o.Log, g.o.Errors, func() { errs[i] = m.recordResult(panics.Err) })
			errs[i] = m.recordResult(m.dicts.Publish(ctx, dicts...))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// recordResult adds the shard's name to an error, and drops the connection so that the next one tries its other
// servers.
func (m *member) recordResult(err error) error {
	m.failing.Store(err != nil)
	if err == nil {
		return nil
	}
	m.conn.Drop() // the master may be another server now
	return fmt.Errorf("shard %s: %w", m.shard.ID, err)
}

// Ready reports whether values stored now may name the dictionary: the server holds it, and so did every
// other shard when last checked. A shard that is down has not lost it, and is checked first when it is back.
// Ready neither blocks nor allocates.
func (g *ClusterDicts) Ready(number uint32) bool {
	l := g.layout.Load()
	if l == nil || !g.own.Ready(number) {
		return false
	}
	for _, m := range l.others {
		if m.dicts.state(number) != Live {
			return false
		}
	}
	return true
}

// Retired reports whether any shard says that new values must not name the dictionary.
func (g *ClusterDicts) Retired(number uint32) bool {
	if g.own.Retired(number) {
		return true
	}
	l := g.layout.Load()
	return l != nil && slices.ContainsFunc(l.others, func(m *member) bool { return m.dicts.Retired(number) })
}

// Record calls Dicts.Record of the shard that keeps the records of all.
func (g *ClusterDicts) Record(ctx context.Context, name string) (string, uint64, error) {
	l, err := g.currentLayout(ctx)
	if err != nil {
		return "", 0, err
	}
	return l.recordDicts.Record(ctx, name)
}

// ReplaceRecord calls Dicts.ReplaceRecord of the shard that keeps the records of all.
func (g *ClusterDicts) ReplaceRecord(ctx context.Context, name string, version uint64, text string) (uint64, error) {
	l, err := g.currentLayout(ctx)
	if err != nil {
		return 0, err
	}
	return l.recordDicts.ReplaceRecord(ctx, name, version, text)
}

// Recheck checks all shards, and stores in them what they lack.
func (g *ClusterDicts) Recheck(ctx context.Context) error {
	if err := g.own.Recheck(ctx); err != nil {
		return err
	}
	return g.sync(ctx, true)
}

// Run checks and restores the dictionaries until ctx ends.
func (g *ClusterDicts) Run(ctx context.Context) {
	go panics.KeepRunning(ctx, g.o.Log, g.o.Errors, g.own.Run)
	panics.KeepRunning(ctx, g.o.Log, g.o.Errors, g.syncLoop)
}

func (g *ClusterDicts) syncLoop(ctx context.Context) {
	if g.o.Find == nil {
		return
	}
	for now := true; ctx.Err() == nil; {
		g.logError(ctx, g.sync(ctx, now))
		select {
		case <-ctx.Done():
		case <-time.After(g.o.Period):
			now = false
		case <-g.wake:
			now = true
		}
	}
}

func (g *ClusterDicts) logError(ctx context.Context, err error) {
	if err == nil {
		g.lastLogged = ""
		return
	}
	if errors.Is(err, ErrShards) && (errors.Is(err, ErrNoInit) || errors.Is(err, ErrDenied)) {
		return // callers that need dictionaries there get this error themselves
	}
	if text := err.Error(); text != g.lastLogged && ctx.Err() == nil {
		g.lastLogged = text
		g.o.Log.Warn("cannot copy dictionaries to all shards, so new dictionaries are not used", "err", err)
	}
}

func (g *ClusterDicts) requestSync() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// currentLayout returns the layout, and looks it up if there is none yet.
func (g *ClusterDicts) currentLayout(ctx context.Context) (*layout, error) {
	if l := g.layout.Load(); l != nil {
		return l, nil
	}
	return g.refreshLayout(ctx)
}

// tryLayout returns the layout for a value that names a dictionary which the server lacks. Just after the
// gateway's start it looks up the shards first, unless that failed a moment ago.
func (g *ClusterDicts) tryLayout() *layout {
	if l := g.layout.Load(); l != nil {
		return l
	}
	g.finding.Lock()
	defer g.finding.Unlock()
	if l := g.layout.Load(); l != nil || time.Since(g.findFailedAt) < missTTL {
		return l
	}
	ctx, cancel := context.WithTimeout(context.Background(), dictTimeout)
	defer cancel()
	l, _ := g.refreshLayoutLocked(ctx)
	return l
}

// refreshLayout looks up the shards.
func (g *ClusterDicts) refreshLayout(ctx context.Context) (*layout, error) {
	g.finding.Lock()
	defer g.finding.Unlock()
	return g.refreshLayoutLocked(ctx)
}

// refreshLayoutLocked is refreshLayout. finding must be held.
func (g *ClusterDicts) refreshLayoutLocked(ctx context.Context) (*layout, error) {
	old := g.layout.Load()
	if g.o.Find == nil {
		return old, nil
	}
	shards, err := g.o.Find(ctx)
	if err != nil {
		g.findFailedAt = time.Now()
		return old, fmt.Errorf("%w: %w", ErrShards, err)
	}
	next, changed := g.newLayout(old, shards)
	if changed {
		g.layout.Store(next)
		if len(next.others) > 0 || old != nil {
			g.o.Log.Info("the server belongs to a group of shards", "others", len(next.others))
		}
	}
	return next, nil
}

// newLayout makes a layout of shards. Shards that stay keep their connections. The first shard keeps the
// records.
func (g *ClusterDicts) newLayout(old *layout, shards []Shard) (next *layout, changed bool) {
	stay := map[string]*member{}
	if old != nil {
		for _, m := range old.others {
			stay[m.shard.ID] = m
		}
	}
	next, changed = &layout{}, old == nil
	for _, s := range shards {
		dicts := g.own
		if !s.Own {
			m := stay[s.ID]
			if m == nil || !slices.Equal(m.shard.Addresses, s.Addresses) {
				changed = true
				conn := g.o.Connect(s)
				m = &member{shard: s, conn: conn, dicts: g.own.forConn(conn)}
			} else {
				delete(stay, s.ID)
			}
			next.others = append(next.others, m)
			dicts = m.dicts
		}
		if next.recordDicts == nil {
			next.recordDicts = dicts
		}
	}
	if next.recordDicts == nil {
		next.recordDicts = g.own
	}
	for _, m := range stay { // shards that have left, or have other addresses now
		changed = true
		m.conn.Close()
	}
	if !changed {
		return old, false
	}
	return next, true
}

// sync looks up the shards. If now is set, or the last check is old or of another layout, it also checks what
// they hold, and stores in each what others hold and it lacks.
func (g *ClusterDicts) sync(ctx context.Context, now bool) error {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	l, err := g.refreshLayout(ctx)
	if err != nil || !now && l == g.checkedLayout && time.Since(g.checkedAt) < dictPeriod {
		return err
	}
	g.checkedLayout = nil
	if err := g.syncShards(ctx, l); err != nil {
		return err
	}
	g.checkedAt, g.checkedLayout = time.Now(), l
	return nil
}

// syncShards checks all shards and spreads their dictionaries. A shard that fails does not stop the others.
func (g *ClusterDicts) syncShards(ctx context.Context, l *layout) error {
	if len(l.others) == 0 {
		return nil
	}
	if err := g.own.Check(ctx); err != nil {
		return err
	}
	errs := make([]error, len(l.others))
	var all sync.WaitGroup
	for i, m := range l.others {
		all.Go(func() {
			defer panics.Catch(g.o.Log, g.o.Errors, func() { errs[i] = m.recordResult(panics.Err) })
			errs[i] = m.recordResult(m.dicts.Check(ctx))
		})
	}
	all.Wait()
	members, names := []*Dicts{g.own}, []string{"own"}
	for i, m := range l.others {
		if errs[i] == nil {
			members, names = append(members, m.dicts), append(names, m.shard.ID)
		}
	}
	_, err := Spread(ctx, members, func(x *codec.Dict, to int) {
		g.o.Log.Info("copied a dictionary to a shard that lacked it", "dictionary", fmt.Sprintf("%08x", x.Number()), "shard", names[to])
	})
	return errors.Join(append(errs, err)...)
}

// Spread copies to each of several servers the dictionaries that it lacks and others held when last checked, and calls
// tell for each. It leaves out servers in which a dictionary was forgotten. A damaged dictionary does not keep others
// from being copied.
func Spread(ctx context.Context, members []*Dicts, tell func(x *codec.Dict, to int)) (copied int, err error) {
	states := map[uint32]State{}
	for _, m := range members {
		for number, s := range m.lastCheck.Load().states {
			if states[number] != Live {
				states[number] = s
			}
		}
	}
	var errs []error
	for _, number := range slices.Sorted(maps.Keys(states)) {
		for to, m := range members {
			if m.state(number) != "" || m.isForgotten(number) {
				continue
			}
			x, err := holder(members, number).fetch(ctx, number)
			if err == nil {
				err = m.storeAs(ctx, x, states[number])
			}
			switch {
			case err == nil:
				tell(x, to)
				copied++
			case errors.Is(err, envelope.ErrDictMissing): // forgotten a moment ago
			case errors.Is(err, ErrForeign) || isCode(err, iproto.ER_PROC_LUA): // the next dictionary may succeed
				errs = append(errs, fmt.Errorf("dictionary %08x: %w", number, err))
			default:
				if errors.Is(err, store.ErrReadOnly) {
					m.conn.Drop() // the master may be another server now
				}
				return copied, errors.Join(append(errs, fmt.Errorf("dictionary %08x: %w", number, err))...)
			}
		}
	}
	return copied, errors.Join(errs...)
}

// holder returns one of the members that hold a dictionary.
func holder(members []*Dicts, number uint32) *Dicts {
	i := slices.IndexFunc(members, func(d *Dicts) bool { return d.state(number) != "" })
	return members[max(i, 0)]
}

// Member is one of the servers of a ClusterDicts.
type Member struct {
	Name  string // an address
	Own   bool
	Conn  *Conn
	Dicts *Dicts
}

// Members looks up the shards, without checking what they hold, and lists them, the server itself first.
func (g *ClusterDicts) Members(ctx context.Context, name string) ([]Member, error) {
	l, err := g.refreshLayout(ctx)
	all := []Member{{Name: name, Own: true, Conn: g.own.conn, Dicts: g.own}}
	if l == nil {
		return all, err
	}
	for _, m := range l.others {
		name := m.shard.ID
		if len(m.shard.Addresses) > 0 {
			name = m.shard.Addresses[0]
		}
		all = append(all, Member{Name: name, Conn: m.conn, Dicts: m.dicts})
	}
	return all, err
}
