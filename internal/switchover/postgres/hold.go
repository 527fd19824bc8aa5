package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// A hold lets no transaction begin: clients that start one wait, and so do new clients before they are
// connected to a server. It is established when no transaction is open and the state of each session is
// known. It ends by Release, by an error, or when its lease runs out.
//
//	open -- Hold --> holding -- all idle and movable --> held -- Move --> moving --> held -- Release --> open
//	  ^-----------------+ otherwise                       +--------------- lease runs out ----------------^

// hold is the state of a gateway's hold; g.mu guards it.
type hold struct {
	phase         string // one of control's phases
	by            string
	until         time.Time
	lease         *time.Timer
	released      chan struct{} // closed when clients continue; nil: no client is held
	waitingLogins int           // new clients that wait to be connected
	longest       time.Duration // longest wait of a client
}

// ErrBusy means that another operation is in progress, or that the operation does not fit the phase.
var ErrBusy = errors.New("not now")

const (
	defaultWithin        = 5 * time.Second
	defaultLease         = time.Minute
	queryTime            = 10 * time.Second // to query the state of one session
	authTime             = time.Second      // for clients to answer authentication requests
	maxConcurrentQueries = 64               // sessions
)

// State returns the state of the gateway.
func (g *Gateway) State() control.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := control.State{
		Gateway: g.cfg.Name, Upstream: g.upstream.String(), Phase: g.hold.phase, By: g.hold.by, Remembers: g.cfg.StateFile != "",
		Waiting: g.hold.waitingLogins, Longest: control.Seconds(g.hold.longest.Seconds()), Sessions: []control.ClientSession{}, Report: g.report.Load(),
	}
	if !g.hold.until.IsZero() {
		until := g.hold.until
		st.Until = &until
	}
	for s := range g.sessions {
		d := s.describe()
		if d.Waiting {
			st.Waiting++
		}
		st.Longest = max(st.Longest, control.Seconds(s.longestWait().Seconds()))
		st.Sessions = append(st.Sessions, d)
	}
	slices.SortFunc(st.Sessions, func(a, b control.ClientSession) int { return int(a.ID) - int(b.ID) })
	return st
}

// beginOperation locks the gateway for an operation that is allowed in the given phases. done unlocks it.
func (g *Gateway) beginOperation(phases ...string) (done func(), err error) {
	if !g.operating.TryLock() {
		return nil, fmt.Errorf("%w: another operation is in progress", ErrBusy)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(phases, g.hold.phase) {
		g.operating.Unlock()
		if g.hold.phase == control.Open {
			return nil, fmt.Errorf("%w: clients are not held", ErrBusy)
		}
		return nil, fmt.Errorf("%w: clients are already held by %q", ErrBusy, g.hold.by)
	}
	return g.operating.Unlock, nil
}

// KeepOpen prevents Hold and Check until done is called. It returns ErrBusy while clients are held or another
// operation is in progress.
func (g *Gateway) KeepOpen() (done func(), err error) { return g.beginOperation(control.Open) }

// Check examines all idle sessions, so that State has the reasons why they can't be moved.
func (g *Gateway) Check(ctx context.Context) (control.State, error) {
	done, err := g.beginOperation(control.Open, control.Held)
	if err != nil {
		return control.State{}, err
	}
	defer done()
	g.survey(ctx)
	return g.State(), nil
}

// Hold returns when no transaction is open and none can begin. After an error everything is as before, except
// that sessions that r allowed to end may have ended. The error is a *control.Refusal if sessions prevented
// the hold.
func (g *Gateway) Hold(ctx context.Context, r control.HoldRequest) (control.State, error) {
	if err := errors.Join(checkPolicy("stuck", r.Stuck), checkPolicy("unmovable", r.Unmovable)); err != nil {
		return control.State{}, err
	}
	if r.Renew {
		return g.renew(r)
	}
	done, err := g.beginOperation(control.Open)
	if err != nil {
		return control.State{}, err
	}
	defer done()
	if r.Unmovable != control.End {
		if err := g.awaitMovable(ctx, r.Patience.Or(0)); err != nil {
			return control.State{}, err
		}
	}
	g.holdAll(r.By)
	if err := g.settle(ctx, r); err != nil {
		g.releaseAll()
		g.counts.holds.failed.Add(1)
		return control.State{}, err
	}
	g.mu.Lock()
	g.hold.phase = control.Held
	g.setLease(r.Lease.Or(defaultLease))
	g.mu.Unlock()
	g.counts.holds.held.Add(1)
	g.cfg.Log.Info("clients are held", "by", r.By)
	return g.State(), nil
}

// checkPolicy checks the value of a policy for sessions that prevent an operation.
func checkPolicy(name, value string) error {
	switch value {
	case "", control.Abort, control.End:
		return nil
	}
	return fmt.Errorf("%s must be %s or %s, not %q", name, control.Abort, control.End, value)
}

func (g *Gateway) renew(r control.HoldRequest) (control.State, error) {
	g.mu.Lock()
	if g.hold.phase != control.Held && g.hold.phase != control.Moving {
		g.mu.Unlock()
		return control.State{}, fmt.Errorf("%w: clients are not held", ErrBusy)
	}
	g.setLease(r.Lease.Or(defaultLease))
	g.mu.Unlock()
	return g.State(), nil
}

// setLease sets when the hold ends by itself. g.mu must be held.
func (g *Gateway) setLease(d time.Duration) {
	if g.hold.lease != nil {
		g.hold.lease.Stop()
	}
	until := time.Now().Add(d)
	g.hold.until = until
	g.hold.lease = time.AfterFunc(d, func() { g.expireHold(until) })
}

// expireHold releases the clients when the lease of their hold has run out.
func (g *Gateway) expireHold(until time.Time) {
	defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, nil)
	g.operating.Lock()
	defer g.operating.Unlock()
	g.mu.Lock()
	over := g.hold.phase == control.Held && g.hold.until.Equal(until)
	by := g.hold.by
	g.mu.Unlock()
	if over {
		g.cfg.Log.Warn("the hold's lease ran out, clients continue", "by", by)
		g.release(g.ctx)
	}
}

// awaitMovable examines idle sessions, while all continue, until all of them can be moved or patience is
// over.
func (g *Gateway) awaitMovable(ctx context.Context, patience time.Duration) error {
	end := time.Now().Add(patience)
	for {
		if bad := g.survey(ctx); len(bad) == 0 {
			return nil
		} else if time.Now().After(end) || ctx.Err() != nil {
			return &control.Refusal{Message: fmt.Sprintf("%d sessions can't be moved", len(bad)), Sessions: bad}
		}
		select {
		case <-ctx.Done():
		case <-time.After(surveyPause):
		}
	}
}

// surveyPause is the pause between two surveys while a session can't be moved.
const surveyPause = 250 * time.Millisecond

// survey examines the idle sessions and returns those that can't be moved.
func (g *Gateway) survey(ctx context.Context) (bad []control.ClientSession) {
	var mu sync.Mutex
	g.forEach(g.all(), maxConcurrentQueries, func(s *session) { _ = s.Close() }, func(s *session) {
		if !s.tryHold() {
			return
		}
		if reasons := s.unmovableReasons(ctx); len(reasons) > 0 {
			mu.Lock()
			defer mu.Unlock()
			bad = append(bad, s.describe())
		}
		g.mu.Lock()
		open := g.hold.phase == control.Open
		g.mu.Unlock()
		if open {
			s.release(false)
		}
	})
	return bad
}

// forEach calls do for each session, up to limit at a time, and panicked for one for which do panics.
func (g *Gateway) forEach(sessions []*session, limit int, panicked, do func(*session)) {
	slots := make(chan struct{}, limit)
	var all sync.WaitGroup
	for _, s := range sessions {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, func() { panicked(s) })
			do(s)
		})
	}
	all.Wait()
}

func (g *Gateway) all() (list []*session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.sessions {
		list = append(list, s)
	}
	return list
}

// holdAll holds all clients from their next transaction on.
func (g *Gateway) holdAll(by string) {
	g.mu.Lock()
	g.hold = hold{phase: control.Holding, by: by, released: make(chan struct{})}
	g.mu.Unlock()
	for _, s := range g.all() {
		s.hold()
	}
}

// releaseAll lets all clients continue.
func (g *Gateway) releaseAll() {
	var longest time.Duration
	for _, s := range g.all() {
		s.release(true)
		longest = max(longest, s.longestWait())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hold.lease != nil {
		g.hold.lease.Stop()
	}
	close(g.hold.released)
	g.hold = hold{phase: control.Open, longest: max(g.hold.longest, longest)}
}

// settle waits until all sessions are idle and their state is known, and ends those that it may end.
func (g *Gateway) settle(ctx context.Context, r control.HoldRequest) error {
	within, cancel := context.WithTimeout(ctx, r.Within.Or(defaultWithin))
	defer cancel()
	answers, cancel := context.WithTimeout(within, authTime)
	defer cancel()
	var mu sync.Mutex
	var stuck, bad []*session
	var all sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentQueries)
	for _, s := range g.all() {
		all.Go(func() {
			defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, func() { _ = s.Close() })
			if !s.awaitIdle(within, answers) {
				mu.Lock()
				defer mu.Unlock()
				stuck = append(stuck, s)
				return
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			if len(s.unmovableReasons(ctx)) > 0 {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, s)
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := g.endOrRefuse(r.Stuck == control.End, stuck, "%d sessions did not end their transactions in time"); err != nil {
		return err
	}
	return g.endOrRefuse(r.Unmovable == control.End, bad, "%d sessions can't be moved")
}

// endOrRefuse ends the sessions if end is true, and otherwise returns a Refusal. Sessions that have not logged in
// are always ended: they have nothing to lose.
func (g *Gateway) endOrRefuse(end bool, list []*session, message string) error {
	refusal := &control.Refusal{}
	for _, s := range list {
		if d := s.describe(); !end && d.State != loggingIn {
			refusal.Sessions = append(refusal.Sessions, d)
		}
	}
	if n := len(refusal.Sessions); n > 0 {
		refusal.Message = fmt.Sprintf(message, n)
		return refusal
	}
	for _, s := range list {
		g.counts.ended.Add(1)
		g.cfg.Log.Info("session ended because it blocks a move", "session", s.describe())
		s.end(fatal(codeShutdown, "terminating connection because the gateway is moving to another server"))
	}
	for _, s := range list {
		<-s.done
	}
	return nil
}

// Release lets the clients continue. Sessions whose server has closed their connections meanwhile are
// connected again.
func (g *Gateway) Release(ctx context.Context) (control.State, error) {
	done, err := g.beginOperation(control.Held)
	if err != nil {
		return control.State{}, err
	}
	defer done()
	g.release(ctx)
	return g.State(), nil
}

func (g *Gateway) release(ctx context.Context) {
	var lost []*session
	for _, s := range g.all() {
		if s.isLost() {
			lost = append(lost, s)
		}
	}
	if len(lost) > 0 {
		ctx, cancel := context.WithTimeout(ctx, defaultMoveTime)
		defer cancel()
		g.reconnect(ctx, lost)
	}
	g.releaseAll()
	g.cfg.Log.Info("clients continue", "longest_wait", g.State().Longest)
}
