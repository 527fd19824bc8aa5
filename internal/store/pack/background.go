package pack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Background packs a store pass after pass inside a gateway, by the operator's settings and the policy in
// force. Errors never end it:
//
//	wanted? -> paused? -> lease acquired? -> one Run -> pause -> …
//
// Gateways of one store with the same rules take turns: one of them makes a pass, and all wait until the
// pause after it is over. A gateway that dies during a pass loses the turn within leaseHold, and another one
// starts over. If two of them work at a time, after a network partition, that costs time but does no harm.
//
// An operator pauses all of them by an entry in the store (store.Pause), which each reads once a second. A
// running pass then waits, keeps its turn, and continues afterwards.
type Background struct {
	o            BackgroundOptions
	pollInterval time.Duration // variables for tests
	leaseHold    time.Duration
	paused       *pauseCache

	mu        sync.Mutex // guards what follows
	current   Report     // of the running pass
	completed Report     // of all earlier passes that replaced values
	estimate  Report     // of the last pass that only estimated, once it has ended
	status    BackgroundStatus
}

// BackgroundOptions configure a Background. Open and Current are required.
type BackgroundOptions struct {
	// Current returns the job; it is called once a second. A pass is abandoned when the job changes.
	Current func() Job
	// Open connects to the store for one pass. An error that wraps ErrNotYet means that something is not
	// there yet but may come.
	Open        func(context.Context, *policy.Policy) (Session, error)
	Pause       store.Pause      // nil: operators can't pause
	Unavailable func(error) bool // see Options
	Log         *slog.Logger     // nil: nothing is logged
}

// Job configures what a Background does.
type Job struct {
	Policy   *policy.Policy // nil: pack nothing
	Formats  bool           // formats of the store's own schema may request compression, as rules do
	DryRun   bool
	Every    time.Duration // pause after a pass
	Parallel int
	MaxBytes int // longer values are left alone

	KeysPerSecond  float64
	BytesPerSecond float64
	MaxLatency     time.Duration
	IdleBelow      time.Duration
	FreqAbove      int
	Exclude        string // patterns of excluded keys, which distinguish policies with equal rules
	StateFile      string // "": none
}

func (j *Job) wanted() bool {
	if j.Policy == nil || j.Policy.Off {
		return false
	}
	for _, r := range j.Policy.Rules() {
		if r.Compresses() {
			return true
		}
	}
	return j.Formats
}

// equals reports whether both jobs have the same effect, as after a reload that changed nothing here.
func (j Job) equals(k Job) bool {
	if j.Policy != k.Policy && (j.wanted() != k.wanted() || j.wanted() && j.name() != k.name()) {
		return false
	}
	j.Policy, k.Policy = nil, nil
	return j == k
}

// name returns the name of the lease. Gateways with equivalent rules share one.
func (j *Job) name() string { return Fingerprint(j.Policy, j.Exclude, strconv.FormatBool(j.DryRun)) }

// Session is a store opened for one pass.
type Session struct {
	Name    string // of the server
	Targets []store.Target
	Lease   func(name string) store.Lease
	Seal    func(*policy.Policy) *Seal
	Close   func()
}

// BackgroundStatus describes what a Background is doing and has done.
type BackgroundStatus struct {
	Wanted  bool      // by settings and policy
	Paused  bool      // by an operator, here or elsewhere, as last known
	Since   time.Time // start of the pause; zero: not paused, or unknown
	Running bool      // a pass is running here
	DryRun  bool
	Done    float64 // share of the running pass, 0 to 1
	Duty    float64 // see Progress
	Passes  map[string]int64
	Last    time.Time // end of the last complete pass; zero: none yet
	Trouble string    // why the last pass was not complete; "": it was
	// Report counts all passes, the running one included. With DryRun it counts the running pass only, or else the last
	// one: estimates of the same values don't add up.
	Report Report
}

// Results of passes, by which BackgroundStatus.Passes counts them.
const (
	PassDone        = "done"
	PassFailed      = "failed"
	PassInterrupted = "interrupted" // by a change, or the end of the process
)

const (
	pollInterval = time.Second
	leaseHold    = time.Minute
	retryAfter   = time.Second // after an error, doubling up to the pause between passes
	askTimeout   = 5 * time.Second
)

// ErrNotYet: the store lacks something that rules name, but may get it soon.
var ErrNotYet = errors.New("packing has to wait")

var errLeaseLost = errors.New("the turn to pack was lost to another gateway") // another gateway may have it now

// NewBackground returns a Background that does nothing before Run.
func NewBackground(o BackgroundOptions) *Background {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Background{o: o, pollInterval: pollInterval, leaseHold: leaseHold, paused: newPauseCache(o.Pause), current: newReport(), completed: newReport(), estimate: newReport(), status: BackgroundStatus{Passes: map[string]int64{}}}
}

// Run packs until stop is closed or ctx ends. After stop it finishes the pages in work.
func (b *Background) Run(ctx context.Context, stop <-chan struct{}) {
	asking, cancel := context.WithCancel(ctx) // ends with stop too: a store that does not answer must not delay a drain
	defer cancel()
	go cancelAfter(asking, stop, cancel)
	failures := 0
	for ctx.Err() == nil && !closed(stop) {
		job := b.o.Current()
		b.set(func(s *BackgroundStatus) { s.Wanted, s.DryRun = job.wanted(), job.DryRun })
		if !job.wanted() {
			b.await(asking, job, b.pollInterval)
			continue
		}
		is, err := b.checkPause(asking)
		if asking.Err() != nil {
			continue
		}
		if is {
			b.await(asking, job, b.pollInterval)
			continue
		}
		wait, err := b.tryPass(ctx, stop, job, err)
		if err != nil {
			wait = min(retryAfter<<min(failures, 16), job.Every)
			if errors.Is(err, ErrMismatch) { // a retry would find the same mismatch
				wait = job.Every
			}
			failures++
			b.o.Log.Warn("packing in the background failed, trying again later", "err", err, "after", wait)
			b.set(func(s *BackgroundStatus) { s.Passes[PassFailed]++; s.Trouble = err.Error() })
		} else {
			failures = 0
		}
		b.await(asking, job, wait)
	}
	b.set(func(s *BackgroundStatus) { s.Wanted = false })
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func cancelAfter(ctx context.Context, stop <-chan struct{}, cancel func()) {
	select {
	case <-stop:
		cancel()
	case <-ctx.Done():
	}
}

// checkPause reports whether an operator has paused packing.
func (b *Background) checkPause(ctx context.Context) (paused bool, err error) {
	defer catch(func(bug error) { err = bug })
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	was, _ := b.paused.state()
	paused, err = b.paused.refresh(asked)
	switch _, since := b.paused.state(); {
	case paused && !was:
		b.o.Log.Info("packing in the background is paused", "since", since)
	case was && !paused:
		b.o.Log.Info("packing in the background is no longer paused")
	}
	return paused, err
}

// Pause stops all gateways from packing the store until Resume, and returns the beginning of the pause. Other gateways
// follow within a second or two. After an error nothing has changed in this process.
func (b *Background) Pause(ctx context.Context) (since time.Time, err error) {
	return b.paused.set(ctx, time.Now())
}

// Resume ends the pause of all gateways.
func (b *Background) Resume(ctx context.Context) error { return b.paused.clear(ctx) }

// await waits for d, or until the job changes.
func (b *Background) await(ctx context.Context, job Job, d time.Duration) {
	for until := time.Now().Add(d); ctx.Err() == nil && job.equals(b.o.Current()); {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(left, b.pollInterval)):
		}
		if job.Policy != nil && left > b.pollInterval {
			_, _ = b.checkPause(ctx) // for Status; Run asks again before the next pass
		}
	}
}

// tryPass makes a pass if this gateway gets the turn, and returns how long to wait afterwards. All failures, panics
// included, are returned as errors. pauseErr is why it is unknown whether packing is paused, nil if it is known not
// to be.
func (b *Background) tryPass(ctx context.Context, stop <-chan struct{}, job Job, pauseErr error) (wait time.Duration, err error) {
	defer catch(func(bug error) { err = bug })
	opened, err := b.o.Open(ctx, job.Policy)
	if errors.Is(err, ErrNotYet) {
		b.set(func(s *BackgroundStatus) { s.Trouble = err.Error() })
		return b.pollInterval, nil
	}
	if err != nil {
		return 0, err
	}
	defer opened.Close()
	if pauseErr != nil { // checked only now, since opening returns a better error
		return 0, pauseErr
	}
	lease := opened.Lease(job.name())
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	wait, err = lease.Acquire(asked, b.leaseHold)
	cancel()
	if err != nil || wait > 0 {
		return min(wait, b.leaseHold), err
	}
	err = b.pass(ctx, stop, job, opened, lease)
	switch {
	case err == nil:
		wait = job.Every
	case errors.Is(err, ErrInterrupted) || ctx.Err() != nil:
		err = nil
		b.set(func(s *BackgroundStatus) { s.Passes[PassInterrupted]++ })
	case errors.Is(err, ErrMismatch): // other gateways would find the same mismatch
		wait = job.Every
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	if e := lease.Release(ended, wait); e != nil && err == nil {
		b.o.Log.Warn("the turn to pack could not be released", "err", e)
	}
	return wait, err
}

// pass walks over everything once.
func (b *Background) pass(ctx context.Context, stop <-chan struct{}, job Job, opened Session, lease store.Lease) error {
	o := Options{
		Targets: opened.Targets, Task: opened.Seal(job.Policy), DryRun: job.DryRun, Parallel: job.Parallel,
		Read:          store.ReadOptions{Types: store.String | store.Hash, MaxBytes: job.MaxBytes, IdleBelow: job.IdleBelow, FreqAbove: job.FreqAbove},
		KeysPerSecond: job.KeysPerSecond, BytesPerSecond: job.BytesPerSecond, MaxLatency: job.MaxLatency,
		Unavailable: b.o.Unavailable, Tell: b.handleEvent, Paused: b.paused.resumeSignal,
	}
	var err error
	if job.StateFile != "" && !job.DryRun {
		if o.State, err = openOwnState(job.StateFile, job.name()+" "+opened.Name); err != nil {
			return err
		}
	}
	passed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	giveUp := make(chan struct{})
	o.Stop = giveUp
	var watch sync.WaitGroup
	start(&watch, cancel, func() error { return b.superviseLease(passed, stop, job, lease, giveUp) })
	b.begin(job.DryRun)
	b.o.Log.Info("packing stored values", "dry_run", job.DryRun, "databases", len(o.Targets))
	report, err := Run(passed, o)
	if cause := context.Cause(passed); err != nil && (errors.Is(cause, errLeaseLost) || errors.Is(cause, errPanic)) {
		err = cause
	}
	cancel(nil)
	watch.Wait()
	b.ended(&report, job.DryRun, err)
	return err
}

// superviseLease renews the lease until the pass ends, and checks whether packing is paused. It closes giveUp
// when the job changes or stop is closed, and returns errLeaseLost when the turn is lost.
func (b *Background) superviseLease(ctx context.Context, stop <-chan struct{}, job Job, lease store.Lease, giveUp chan<- struct{}) error {
	tick := time.NewTicker(b.pollInterval)
	defer tick.Stop()
	kept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stop:
			close(giveUp)
			return nil
		case <-tick.C:
		}
		if !job.equals(b.o.Current()) {
			close(giveUp)
			return nil
		}
		_, _ = b.checkPause(ctx) // an error changes nothing
		if time.Since(kept) < b.leaseHold/4 {
			continue
		}
		asked, done := context.WithTimeout(ctx, askTimeout)
		mine, err := lease.Renew(asked, b.leaseHold)
		done()
		switch {
		case err == nil && mine:
			kept = time.Now()
		case err == nil:
			return errLeaseLost
		} // without an answer the walk itself waits for the server, or gives up
	}
}

// handleEvent records the progress of a pass, and logs notices and problems with values.
func (b *Background) handleEvent(e Event) {
	switch {
	case e.Progress != nil:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.current = e.Progress.Report
		b.status.Done, b.status.Duty = e.Progress.Done, e.Progress.Duty
	case e.Problem != nil:
		b.o.Log.Debug("a value could not be packed", "space", e.Problem.Space, "err", e.Problem.Err)
	default:
		b.o.Log.Info("packing stored values: " + e.Notice)
	}
}

func (b *Background) begin(dryRun bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Running, b.status.Done = true, 0
	if dryRun {
		b.estimate = newReport()
	}
}

func (b *Background) ended(r *Report, dryRun bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if dryRun {
		b.estimate.add(r)
	} else {
		b.completed.add(r)
	}
	b.current = newReport()
	s := &b.status
	s.Running, s.Done, s.Duty = false, 0, 0
	if err == nil {
		s.Passes[PassDone]++
		s.Last, s.Trouble = time.Now(), ""
		b.o.Log.Info("packed stored values", "keys", r.Keys, "values", r.Replaced, "saved_bytes", r.Saved(), "problems", r.Problems, "took", r.Took)
	}
}

func (b *Background) set(change func(*BackgroundStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

// Status returns a copy of the current status.
func (b *Background) Status() BackgroundStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.Paused, s.Since = b.paused.state()
	s.Passes = map[string]int64{}
	for how, n := range b.status.Passes {
		s.Passes[how] = n
	}
	s.Report = newReport()
	if s.DryRun {
		s.Report.add(&b.estimate)
	} else {
		s.Report.add(&b.completed)
	}
	s.Report.add(&b.current)
	return s
}

// backgroundRun names a Background's runs in the state file.
const backgroundRun = "background"

// openOwnState opens the state file, and replaces one that was written under other rules. It fails for a file that
// was not written by a Background.
func openOwnState(file, fingerprint string) (*State, error) {
	s, err := OpenState(file, backgroundRun, fingerprint)
	if !errors.Is(err, errOtherRules) {
		return s, err
	}
	if err := os.Remove(file); err != nil {
		return nil, err
	}
	return OpenState(file, backgroundRun, fingerprint)
}

// UniqueHolder returns a unique name for a gateway or run of this process, as the holder of a lease or the trainer
// of a dictionary: host/name/random.
func UniqueHolder(name string) string {
	host, _ := os.Hostname()
	var random [4]byte
	_, _ = rand.Read(random[:])
	return strings.ToValidUTF8(host, "") + "/" + name + "/" + hex.EncodeToString(random[:])
}
