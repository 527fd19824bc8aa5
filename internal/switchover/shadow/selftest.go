package shadow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// Scratch makes operations on the self-test's own data, which no client uses. A Protocol that implements it
// can be tested before a run.
type Scratch interface {
	// ScratchWrite stores the i-th content, ScratchRead reads the stored content. Both are sent on one
	// connection.
	ScratchWrite(i int) *Operation
	ScratchRead() *Operation
	// ScratchClean removes the data.
	ScratchClean() *Operation
}

// Size of the self-test. On targets that are hardly used, twenty pairs of batches find the slowdown of a
// fifth. On a busy machine it continues until that is found, or until Config.SelfTestPairs.
const (
	selfTestOperations = 60   // of each kind in a batch
	selfTestLeast      = 20   // pairs of batches
	selfTestPairs      = 1000 // Config.SelfTestPairs
	selfTestSlower     = 0.20
	selfTestMargin     = 0.05 // the slowdown must be found to exceed it
)

// ErrNoisy is wrapped by SelfTest's error if everything but the slowdown was found.
var ErrNoisy = errors.New("self-test: this machine is too noisy for a verdict")

// SelfTest plants a slowdown, a wrong answer, a lost write and an unequal drop in the mirror's own path to
// the test target, and fails unless each is found. It uses scratch data, and removes it.
func (r *Run) SelfTest(ctx context.Context) (err error) {
	s, ok := r.cfg.Protocol.(Scratch)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	defer func() { r.tested.Store(err == nil) }()
	t := newSelfTest(ctx, cancel, r, s)
	defer t.finish()
	for _, step := range []func() error{t.equal, t.wrongAnswer, t.lostWrite, t.unequalDrop, t.slowdown} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// cleanTime limits, when a self-test is stopped, the time to finish running operations and to remove its
// data.
const cleanTime = 5 * time.Second

// selfTest is a mirror without clients.
type selfTest struct {
	ctx     context.Context
	work    context.Context // of operations: ends later, so that none is cut off and executed afterwards
	mirror  *mirror
	scratch Scratch
	pairs   int // maximum of pairs of batches to look for the slowdown
	written int
	failed  chan error // the error of the first target that does not answer
}

func newSelfTest(ctx context.Context, cancel func(), r *Run, s Scratch) *selfTest {
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(cleanTime, end) })
	t := &selfTest{ctx: ctx, work: work, scratch: s, pairs: r.cfg.SelfTestPairs, failed: make(chan error, 1)}
	t.mirror = newMirror(r.cfg, r.budget, func(target *Target, err error) {
		select {
		case t.failed <- terminal.WithHint(fmt.Errorf("self-test: %s does not answer: %w", target, err), "check that it runs and accepts connections from this machine, and read its log"):
		default:
		}
		cancel()
	})
	t.mirror.rate = 1
	t.mirror.compare.excuser = nil
	return t
}

// do sends operations one by one to both targets, and waits for each.
func (t *selfTest) do(ops ...*Operation) error {
	for _, op := range ops {
		t.one(op)
		if err := t.stopped(); err != nil {
			return err
		}
	}
	return nil
}

// stopped returns why the test can't continue; nil: it can.
func (t *selfTest) stopped() error {
	if t.ctx.Err() == nil {
		return nil
	}
	select {
	case err := <-t.failed:
		return err
	default:
		return fmt.Errorf("self-test: stopped before it finished: %w", t.ctx.Err())
	}
}

func (t *selfTest) one(op *Operation) {
	t.mirror.submit(t.work, 1, []*Operation{op})
	for i := range targets {
		if arrived := op.legs[i].wait(); arrived != nil {
			<-arrived
		}
	}
}

func (t *selfTest) write() *Operation {
	t.written++
	return t.scratch.ScratchWrite(t.written)
}

// planted runs operations with a fault in the path to the test target, and returns what was counted.
func (t *selfTest) planted(p *Plant, ops ...*Operation) (Compared, error) {
	before, _ := t.mirror.compare.totals()
	t.mirror.targets[test].planted.Store(p)
	defer t.mirror.targets[test].planted.Store(nil)
	if err := t.do(ops...); err != nil {
		return Compared{}, err
	}
	after, _ := t.mirror.compare.totals()
	after.Different -= before.Different
	for i := range after.Lost {
		after.Lost[i] -= before.Lost[i]
	}
	return after, nil
}

// Hints for a self-test that finds a fault that was not planted, or misses one that was.
const (
	hintRights   = "the user in its URL needs the rights that clients have (in PostgreSQL also CREATE in the database), and the server needs free memory and disk and must accept writes"
	hintUnalike  = "write and read a value on both by hand: a proxy in front of one of them, a replica or a setting changes or loses writes"
	hintNotFound = "a verdict would not be reliable. Something else may have changed the answer: try again; if it fails again, report a bug of cinch"
	hintQuieter  = "run the mirror on a quieter machine, or with targets that have no other load"
)

// equal checks that both targets execute a write and a read, and answer alike.
func (t *selfTest) equal() error {
	write, read := t.write(), t.scratch.ScratchRead()
	c, err := t.planted(nil, write, read)
	if err != nil {
		return err
	}
	for _, op := range []*Operation{write, read} {
		for i, target := range t.mirror.targets {
			if code := op.answers[i].Error; code != "" {
				return terminal.WithHint(fmt.Errorf("self-test: %s refuses a %s of the self-test (%s): %s", target, op.Kind, op.Name, code), hintRights)
			}
		}
	}
	if c.Different > 0 {
		d := differenceOf(read, read.answers[control], read.answers[test])
		return terminal.WithHint(fmt.Errorf("self-test: %s and %s answer differently, although the same was written to both just before: to %s control answered %s, test %s",
			t.mirror.targets[control], t.mirror.targets[test], d.Name, d.Control, d.Test), hintUnalike)
	}
	return nil
}

// notFound returns the error for a fault that was planted and not found.
func (t *selfTest) notFound(what, found string) error {
	return terminal.WithHint(fmt.Errorf("self-test: %s was planted in the path to %s, and %s", what, t.mirror.targets[test], found), hintNotFound)
}

func (t *selfTest) wrongAnswer() error {
	read := t.scratch.ScratchRead()
	c, err := t.planted(&Plant{Wrong: func(op *Operation) bool { return op == read }}, read)
	if err == nil && c.Different != 1 {
		err = t.notFound("one wrong answer", fmt.Sprintf("%d were found", c.Different))
	}
	return err
}

func (t *selfTest) lostWrite() error {
	write := t.write()
	c, err := t.planted(&Plant{Lose: func(op *Operation) bool { return op == write }}, write, t.scratch.ScratchRead())
	if err == nil && c.Different == 0 {
		err = t.notFound("one lost write", "it was not found")
	}
	return err
}

func (t *selfTest) unequalDrop() error {
	read := t.scratch.ScratchRead()
	c, err := t.planted(&Plant{Drop: func(op *Operation) bool { return op == read }}, read)
	if err == nil && (c.Lost[test] != 1 || c.Lost[control] != 0) {
		err = t.notFound("one drop", fmt.Sprintf("%d were counted there, %d at control", c.Lost[test], c.Lost[control]))
	}
	return err
}

// slowdown looks for a slowdown of a fifth. Slowed and plain reads alternate one by one, so that other load
// on this machine, which a run averages out over hours, affects both alike. An observation is the log-ratio
// of the medians of the slowed reads minus that of the plain ones.
func (t *selfTest) slowdown() error {
	e := verdict.NewEvaluator(verdict.Settings{Planned: selfTestLeast}, verdict.Metric{Name: "p50", Margin: selfTestMargin})
	for n := 1; ; n++ {
		x, err := t.pair()
		if err != nil {
			return err
		}
		if e.Add(verdict.Batch{x}, nil); n < min(selfTestLeast, t.pairs) {
			continue
		}
		if e.Outcome() == verdict.Fail {
			return nil
		}
		if n >= t.pairs {
			s := e.States()[0]
			return terminal.WithHint(fmt.Errorf("%w: a planted slowdown of %.0f %% in the path to %s was not found in %d batches (found %+.1f %%, between %+.1f and %+.1f)",
				ErrNoisy, 100*selfTestSlower, t.mirror.targets[test], s.Batches, 100*(s.Ratio-1), 100*(s.Low-1), 100*(s.High-1)), hintQuieter)
		}
	}
}

// slowed is the name of the slowed reads.
const slowed = "slowed scratch"

// pair reads scratch data, every second time slowed, and returns an observation.
func (t *selfTest) pair() (float64, error) {
	var plain string
	for i := range 2 * selfTestOperations {
		op, p := t.scratch.ScratchRead(), (*Plant)(nil)
		if i%2 == 0 {
			plain = op.Name
		} else {
			op.Name, p = slowed, &Plant{Slower: selfTestSlower}
		}
		if _, err := t.planted(p, op); err != nil {
			return 0, err
		}
	}
	names := t.mirror.compare.cut(time.Now()).names
	return names[slowed].ratio(0.5) - names[plain].ratio(0.5), nil
}

// finish removes the scratch data, even if the test was stopped, and ends the target connections.
func (t *selfTest) finish() {
	t.one(t.scratch.ScratchClean())
	for _, target := range t.mirror.targets {
		target.settle()
	}
}

// Plant is a fault that the self-test puts into the mirror's own path to a target.
type Plant struct {
	Slower float64               // latencies grow by this fraction
	Wrong  func(*Operation) bool // selects operations whose answer is damaged
	Lose   func(*Operation) bool // selects operations that are answered but not sent
	Drop   func(*Operation) bool // selects operations that are lost, and counted as such
}

// keep answers the operations that the plant loses or drops, and returns the others.
func (p *Plant) keep(t *Target, ops []*Operation) []*Operation {
	var kept []*Operation
	for _, op := range ops {
		switch {
		case p.Lose != nil && p.Lose(op):
			t.answer(op, op.Production)
		case p.Drop != nil && p.Drop(op):
			t.answer(op, Answer{Lost: true})
		default:
			kept = append(kept, op)
		}
	}
	return kept
}

// change makes an answer wrong or late.
func (p *Plant) change(op *Operation, a Answer) Answer {
	if p.Wrong != nil && p.Wrong(op) {
		a.Digest++
	}
	// The time is added, not spent: spending it would take CPU time from the other target's connection.
	a.Took += time.Duration(p.Slower * float64(a.Took))
	return a
}
