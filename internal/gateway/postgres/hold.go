package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres/control"
)

// A hold lets no transaction begin: clients that want one wait, and so do new clients before they are connected to a server. It stands
// when no transaction is under way and what each session keeps is known. It ends by release, by failing, or when nobody renews its lease.
//
//	open ── Hold ──> holding ── all idle, all movable ──> held ── Move ──> moving ──> held ── Release ──> open
//	  ^─────────────────┘ otherwise                          └────────── the lease is over ──────────────^

// hold is that of a gateway; g.mu guards it.
type hold struct {
	phase   string // of control's
	by      string
	until   time.Time
	lease   *time.Timer
	opened  chan struct{} // closed when clients go on; nil: nobody is held
	coming  int           // clients that wait for their connection
	longest time.Duration // that a client has waited
}

// ErrBusy is an operation that comes while another one is under way, or that does not fit the phase.
var ErrBusy = errors.New("not now")

const (
	defaultWithin = 5 * time.Second
	defaultLease  = time.Minute
	askTime       = 10 * time.Second // for one session
	lookAtOnce    = 64               // sessions
)

// State says where the gateway stands.
func (g *Gateway) State() control.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := control.State{
		Gateway: g.cfg.Name, Upstream: g.upstream.String(), Phase: g.hold.phase, By: g.hold.by, Remembers: g.cfg.StateFile != "",
		Waiting: g.hold.coming, Longest: control.Seconds(g.hold.longest.Seconds()), Sessions: []control.ClientSession{}, Report: g.report.Load(),
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
		st.Longest = max(st.Longest, control.Seconds(s.waited().Seconds()))
		st.Sessions = append(st.Sessions, d)
	}
	slices.SortFunc(st.Sessions, func(a, b control.ClientSession) int { return int(a.ID) - int(b.ID) })
	return st
}

// operate takes the gateway for an operation in one of some phases.
func (g *Gateway) operate(phases ...string) (done func(), err error) {
	if !g.operating.TryLock() {
		return nil, fmt.Errorf("%w: another operation is under way", ErrBusy)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(phases, g.hold.phase) {
		g.operating.Unlock()
		if g.hold.phase == control.Open {
			return nil, fmt.Errorf("%w: clients are not held", ErrBusy)
		}
		return nil, fmt.Errorf("%w: clients are held already, by %q", ErrBusy, g.hold.by)
	}
	return g.operating.Unlock, nil
}

// KeepOpen has clients not be held, nor be looked at, until done is called. An error is ErrBusy: they are held, or about to be.
func (g *Gateway) KeepOpen() (done func(), err error) { return g.operate(control.Open) }

// Check looks at all sessions that are idle, so that State knows which can't be moved.
func (g *Gateway) Check(ctx context.Context) (control.State, error) {
	done, err := g.operate(control.Open, control.Held)
	if err != nil {
		return control.State{}, err
	}
	defer done()
	g.survey(ctx)
	return g.State(), nil
}

// Hold returns when no transaction is under way and none begins. An error, a *control.Refusal where sessions are the reason, leaves
// everything as it was, but for sessions that it was told to end.
func (g *Gateway) Hold(ctx context.Context, r control.HoldRequest) (control.State, error) {
	if err := errors.Join(policy("stuck", r.Stuck), policy("unmovable", r.Unmovable)); err != nil {
		return control.State{}, err
	}
	if r.Renew {
		return g.renew(r)
	}
	done, err := g.operate(control.Open)
	if err != nil {
		return control.State{}, err
	}
	defer done()
	if r.Unmovable != control.End {
		if err := g.awaitMovable(ctx, r.Patience.Or(0)); err != nil {
			return control.State{}, err
		}
	}
	g.shut(r.By)
	if err := g.settle(ctx, r); err != nil {
		g.open()
		g.counts.holds.failed.Add(1)
		return control.State{}, err
	}
	g.mu.Lock()
	g.hold.phase = control.Held
	g.lease(r.Lease.Or(defaultLease))
	g.mu.Unlock()
	g.counts.holds.held.Add(1)
	g.cfg.Log.Info("clients are held", "by", r.By)
	return g.State(), nil
}

// policy checks what is to become of sessions that stand in the way.
func policy(name, value string) error {
	switch value {
	case "", control.Abort, control.End:
		return nil
	}
	return fmt.Errorf("%s is %s or %s, not %q", name, control.Abort, control.End, value)
}

func (g *Gateway) renew(r control.HoldRequest) (control.State, error) {
	g.mu.Lock()
	if g.hold.phase != control.Held && g.hold.phase != control.Moving {
		g.mu.Unlock()
		return control.State{}, fmt.Errorf("%w: clients are not held", ErrBusy)
	}
	g.lease(r.Lease.Or(defaultLease))
	g.mu.Unlock()
	return g.State(), nil
}

// lease has the hold end by itself. g.mu is held.
func (g *Gateway) lease(d time.Duration) {
	if g.hold.lease != nil {
		g.hold.lease.Stop()
	}
	until := time.Now().Add(d)
	g.hold.until = until
	g.hold.lease = time.AfterFunc(d, func() { g.expire(until) })
}

// expire releases clients whose hold nobody has renewed.
func (g *Gateway) expire(until time.Time) {
	defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, nil)
	g.operating.Lock()
	defer g.operating.Unlock()
	g.mu.Lock()
	over := g.hold.phase == control.Held && g.hold.until.Equal(until)
	by := g.hold.by
	g.mu.Unlock()
	if over {
		g.cfg.Log.Warn("nobody renewed the hold, clients go on", "by", by)
		g.release(g.ctx)
	}
}

// awaitMovable looks at idle sessions, while all go on, until none of them keeps what can't be moved.
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

// surveyPause is between two looks at sessions of which one can't be moved.
const surveyPause = 250 * time.Millisecond

// survey looks at the sessions that are idle, and returns those that can't be moved.
func (g *Gateway) survey(ctx context.Context) (bad []control.ClientSession) {
	var mu sync.Mutex
	g.each(func(s *session) {
		if !s.take() {
			return
		}
		if reasons := s.reasons(ctx); len(reasons) > 0 {
			mu.Lock()
			defer mu.Unlock()
			bad = append(bad, s.describe())
		}
		g.mu.Lock()
		open := g.hold.phase == control.Open
		g.mu.Unlock()
		if open {
			s.letGo(false)
		}
	})
	return bad
}

// each calls do for each session, several at a time.
func (g *Gateway) each(do func(*session)) {
	slots := make(chan struct{}, lookAtOnce)
	var all sync.WaitGroup
	for _, s := range g.all() {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, func() { _ = s.Close() })
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

// shut lets nobody begin.
func (g *Gateway) shut(by string) {
	g.mu.Lock()
	g.hold = hold{phase: control.Holding, by: by, opened: make(chan struct{})}
	g.mu.Unlock()
	for _, s := range g.all() {
		s.stop()
	}
}

// open lets everybody go on.
func (g *Gateway) open() {
	var longest time.Duration
	for _, s := range g.all() {
		s.letGo(true)
		longest = max(longest, s.waited())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hold.lease != nil {
		g.hold.lease.Stop()
	}
	close(g.hold.opened)
	g.hold = hold{phase: control.Open, longest: max(g.hold.longest, longest)}
}

// settle waits until all sessions are idle and known, and ends those that it may end.
func (g *Gateway) settle(ctx context.Context, r control.HoldRequest) error {
	within, cancel := context.WithTimeout(ctx, r.Within.Or(defaultWithin))
	defer cancel()
	var mu sync.Mutex
	var stuck, bad []*session
	var all sync.WaitGroup
	slots := make(chan struct{}, lookAtOnce)
	for _, s := range g.all() {
		all.Go(func() {
			defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, func() { _ = s.Close() })
			if !s.awaitIdle(within) {
				mu.Lock()
				defer mu.Unlock()
				stuck = append(stuck, s)
				return
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			if len(s.reasons(ctx)) > 0 {
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
	if err := g.endOr(r.Stuck == control.End, stuck, "%d sessions did not end their transactions in time"); err != nil {
		return err
	}
	return g.endOr(r.Unmovable == control.End, bad, "%d sessions can't be moved")
}

// endOr ends sessions that stand in the way, or refuses for them. Those that are not logged in yet have nothing to lose.
func (g *Gateway) endOr(end bool, list []*session, message string) error {
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
		g.cfg.Log.Info("session ended, for it stands in the way of a move", "session", s.describe())
		s.end(fatal(codeShutdown, "terminating connection because the gateway moves to another server"))
	}
	for _, s := range list {
		<-s.over
	}
	return nil
}

// Release lets clients go on. Sessions whose server has gone meanwhile are connected again.
func (g *Gateway) Release(ctx context.Context) (control.State, error) {
	done, err := g.operate(control.Held)
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
	g.open()
	g.cfg.Log.Info("clients go on", "longest_wait", g.State().Longest)
}
