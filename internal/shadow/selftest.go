package shadow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow/verdict"
)

// Scratch makes operations on data of the tool's own, which no client uses. A Protocol that has it
// can be tested before a run.
type Scratch interface {
	// ScratchWrite stores the i-th content, ScratchRead reads what is stored. Both
	// are on one connection.
	ScratchWrite(i int) *Operation
	ScratchRead() *Operation
	// ScratchClean removes it.
	ScratchClean() *Operation
}

// The size of the self-test. Twenty batches find a fifth where the targets are hardly used.
const (
	selfTestOperations = 60  // a batch
	selfTestLeast      = 20  // batches of each phase
	selfTestMost       = 400 // batches, before noise is said to be too large
	selfTestSlower     = 0.20
)

// ErrNoisy is wrapped by what SelfTest returns when all but the slowdown was found.
var ErrNoisy = errors.New("self-test: this machine is too noisy for a verdict")

// SelfTest plants a slowdown, a wrong answer, a lost write and an unequal drop in the tool's own path to the
// test target, and fails unless each is found. It uses data of its own, and removes it.
func (r *Run) SelfTest(ctx context.Context) (err error) {
	s, ok := r.cfg.Protocol.(Scratch)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { r.tested.Store(err == nil) }()
	t := newSelfTest(ctx, cancel, r, s)
	defer func() {
		if clean := t.finish(); err == nil {
			err = clean
		}
	}()
	for _, step := range []func() error{t.equal, t.wrongAnswer, t.lostWrite, t.unequalDrop, t.slowdown} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// selfTest is a mirror without clients.
type selfTest struct {
	ctx     context.Context
	mirror  *mirror
	scratch Scratch
	written int
}

func newSelfTest(ctx context.Context, cancel func(), r *Run, s Scratch) *selfTest {
	t := &selfTest{ctx: ctx, scratch: s}
	t.mirror = newMirror(r.cfg, func(t *Target, err error) {
		cancel()
		r.log.Error("self-test: a target does not answer", "target", t.String(), "err", err)
	})
	t.mirror.rate = 1
	t.mirror.compare.excuser = nil
	return t
}

// do sends operations one by one to both targets, and waits for each.
func (t *selfTest) do(ops ...*Operation) error {
	for _, op := range ops {
		t.mirror.submit(t.ctx, 1, []*Operation{op})
		for i := range targets {
			if arrived := op.legs[i].wait(); arrived != nil {
				<-arrived
			}
		}
		if err := t.ctx.Err(); err != nil {
			return fmt.Errorf("self-test: stopped before its end: %w", err)
		}
	}
	return nil
}

func (t *selfTest) write() *Operation {
	t.written++
	return t.scratch.ScratchWrite(t.written)
}

// planted runs operations with a fault in the path to the test target, and says what was counted.
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

func (t *selfTest) equal() error {
	c, err := t.planted(nil, t.write(), t.scratch.ScratchRead())
	if err == nil && (c.Different > 0 || c.Lost != [targets]uint64{}) {
		err = fmt.Errorf("self-test: the targets differ in data that was just written to both: %d answers differ, %v lost", c.Different, c.Lost)
	}
	return err
}

func (t *selfTest) wrongAnswer() error {
	read := t.scratch.ScratchRead()
	c, err := t.planted(&Plant{Wrong: func(op *Operation) bool { return op == read }}, read)
	if err == nil && c.Different != 1 {
		err = fmt.Errorf("self-test: a wrong answer was planted, %d found", c.Different)
	}
	return err
}

func (t *selfTest) lostWrite() error {
	write := t.write()
	c, err := t.planted(&Plant{Lose: func(op *Operation) bool { return op == write }}, write, t.scratch.ScratchRead())
	if err == nil && c.Different == 0 {
		err = fmt.Errorf("self-test: a lost write was planted and not found")
	}
	return err
}

func (t *selfTest) unequalDrop() error {
	read := t.scratch.ScratchRead()
	c, err := t.planted(&Plant{Drop: func(op *Operation) bool { return op == read }}, read)
	if err == nil && (c.Lost[test] != 1 || c.Lost[control] != 0) {
		err = fmt.Errorf("self-test: a drop was planted at test, %v were counted", c.Lost)
	}
	return err
}

// slowdown looks for a fifth, as a run would. The A/A phase and the test phase take turns, so that this
// machine's drifts, which a run has hours to average out, are in both.
func (t *selfTest) slowdown() error {
	var equal, slower []float64
	for {
		for p, to := range map[*Plant]*[]float64{nil: &equal, {Slower: selfTestSlower}: &slower} {
			x, err := t.batch(p)
			if err != nil {
				return err
			}
			*to = append(*to, x)
		}
		if len(equal) < selfTestLeast {
			continue
		}
		s, found := judgeSlowdown(equal, slower)
		if found {
			return nil
		}
		if len(equal) >= selfTestMost {
			return fmt.Errorf("%w: a slowdown of %.0f %% was planted and not found in %d batches (found %+.1f %%, between %+.1f and %+.1f)",
				ErrNoisy, 100*selfTestSlower, s.Batches, 100*(s.Ratio-1), 100*(s.Low-1), 100*(s.High-1))
		}
	}
}

func judgeSlowdown(equal, slower []float64) (verdict.State, bool) {
	j := verdict.NewJudge(verdict.Settings{Planned: selfTestLeast}, verdict.Metric{Name: "p50", Margin: 0.05})
	for _, x := range equal {
		j.Baseline(verdict.Batch{x})
	}
	for _, x := range slower {
		j.Add(verdict.Batch{x})
	}
	return j.States()[0], j.Outcome() == verdict.Fail
}

// batch reads scratch data, and returns the log-ratio of the medians.
func (t *selfTest) batch(p *Plant) (float64, error) {
	ops := make([]*Operation, selfTestOperations)
	for i := range ops {
		ops[i] = t.scratch.ScratchRead()
	}
	if _, err := t.planted(p, ops...); err != nil {
		return 0, err
	}
	return t.mirror.compare.cut(time.Now()).kinds[Read].ratio(0.5), nil
}

// finish removes what was written, and ends the lanes.
func (t *selfTest) finish() error {
	err := t.do(t.scratch.ScratchClean())
	if t.ctx.Err() != nil {
		err = nil // what ended the test is reported
	}
	for _, target := range t.mirror.targets {
		target.settle()
	}
	return err
}
