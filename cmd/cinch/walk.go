package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
	"github.com/cinch-layer/cinch/internal/store/pack/output"
	"github.com/cinch-layer/cinch/internal/system/gc"
)

// walkOptions are the options shared by pack, unpack and verify: speed, distribution of the work, output.
type walkOptions struct {
	verb string // "packing"

	worker     string // K/N, or index/N
	parallel   int
	keysPerSec float64
	bytes      string // per second
	maxLatency time.Duration
	noBackoff  bool
	stateFile  string
	asJSON     bool

	out, errs io.Writer
	show      *output.Printer
	signals   <-chan os.Signal

	part, parts    int             // from worker
	bytesPerSecond float64         // from bytes
	stop           <-chan struct{} // closed by the first signal
}

func (o *walkOptions) flags(cmd *cobra.Command, resumes bool) {
	f := cmd.Flags()
	f.StringVar(&o.worker, "worker", "1/1", "`K/N`: this is the K-th of N processes that share the keys; index/N: K is one more than $"+indexVariable)
	f.IntVar(&o.parallel, "parallel", 4, "number of `PAGES` of keys to work on at the same time, on each node")
	f.Float64Var(&o.keysPerSec, "keys-per-second", 0, "check at most `N` keys a second (default no limit)")
	f.StringVar(&o.bytes, "bytes-per-second", "", "read at most `SIZE` a second (default no limit)")
	f.DurationVar(&o.maxLatency, "max-latency", 0, "slow down when a PING takes longer than `TIME` (default: twice its best time, and at least 1ms more)")
	f.BoolVar(&o.noBackoff, "no-backoff", false, "don't slow down when the server does")
	f.BoolVar(&o.asJSON, "json", false, "write events as JSON, one a line")
	if resumes {
		f.StringVar(&o.stateFile, "state", "", "`FILE` to save the position in, and to continue from; in a directory, or DIR/, each worker has a file of its own")
	}
}

// listen connects the command's outputs and signals.
func (o *walkOptions) listen(cmd *cobra.Command) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	o.out, o.errs, o.signals = cmd.OutOrStdout(), cmd.ErrOrStderr(), signals
	o.show = output.New(o.verb, o.asJSON, o.out, o.errs)
	return func() { signal.Stop(signals) }
}

// check parses the flags. It rejects values such as 0 that would silently mean the default or no limit.
func (o *walkOptions) check() error {
	for flag, negative := range map[string]bool{
		"parallel": o.parallel < 1, "keys-per-second": o.keysPerSec < 0, "max-latency": o.maxLatency < 0,
	} {
		if negative {
			return wrongUsage(terminal.WithHint(fmt.Errorf("--%s is too small", flag), "leave it out for the default"))
		}
	}
	if o.bytes != "" {
		var size config.Bytes
		if err := size.UnmarshalText([]byte(o.bytes)); err != nil {
			return wrongUsage(fmt.Errorf("--bytes-per-second: %w", err))
		}
		o.bytesPerSecond = float64(size)
	}
	return wrongUsage(o.checkWorker())
}

// indexVariable is the number, from 0, that Kubernetes gives to each pod of an Indexed Job.
const indexVariable = "JOB_COMPLETION_INDEX"

func (o *walkOptions) checkWorker() error {
	k, n, ok := strings.Cut(o.worker, "/")
	var err, err2 error
	o.part, err = strconv.Atoi(k)
	o.parts, err2 = strconv.Atoi(n)
	if k == "index" && err2 == nil && o.parts > 0 {
		text := os.Getenv(indexVariable)
		index, err := strconv.Atoi(text)
		switch {
		case text == "":
			return terminal.WithHint(fmt.Errorf("--worker %s: the variable %s is not set", o.worker, indexVariable),
				"Kubernetes sets it in a Job with completionMode: Indexed; elsewhere write --worker 1/%d", o.parts)
		case err != nil || index < 0 || index >= o.parts:
			return terminal.WithHint(fmt.Errorf("--worker %s: %s is %q, and must be from 0 to %d", o.worker, indexVariable, text, o.parts-1),
				"write the Job's number of completions after the slash")
		}
		o.part = index + 1
		return nil
	}
	if !ok || err != nil || err2 != nil || o.part < 1 || o.part > o.parts {
		return terminal.WithHint(fmt.Errorf("--worker %q is not K/N with K from 1 to N", o.worker), "the second of three processes has --worker 2/3")
	}
	return nil
}

// options returns the options of a run that all three commands share.
func (o *walkOptions) options(w *openedStore) pack.Options {
	targets, own := w.store.Part(o.part, o.parts)
	return pack.Options{
		Targets: targets, Own: own, Parallel: o.parallel, KeysPerSecond: o.keysPerSec, BytesPerSecond: o.bytesPerSecond,
		MaxLatency: o.maxLatency, NoBackoff: o.noBackoff, Unavailable: w.store.Unavailable, Stop: o.stop, Tell: o.show.Tell,
	}
}

// state opens the state file, if requested.
func (o *walkOptions) state(w *openedStore, verb, fingerprint string) (*pack.State, error) {
	if o.stateFile == "" {
		return nil, nil
	}
	run := fmt.Sprintf("%s %s worker %d/%d", verb, w.store.Name(), o.part, o.parts)
	file, err := o.stateName(verb, run+fingerprint)
	if err != nil {
		return nil, w.runFailure(err, o.stateFile)
	}
	s, err := pack.OpenState(file, run, fingerprint)
	if errors.Is(err, pack.ErrOtherState) {
		err = terminal.WithHint(err, "give another --state FILE, or delete this one to start from the beginning")
	}
	if errors.Is(err, pack.ErrState) {
		err = w.runFailure(err, o.stateFile)
	}
	return s, err
}

// stateName returns the name of the state file. In a directory each command, worker, store and set of rules has a file
// of its own, so that one directory serves all workers, and a run with other rules starts from the beginning.
func (o *walkOptions) stateName(verb, run string) (string, error) {
	if info, err := os.Stat(o.stateFile); !strings.HasSuffix(o.stateFile, "/") && (err != nil || !info.IsDir()) {
		return o.stateFile, nil
	}
	if err := os.MkdirAll(o.stateFile, 0o700); err != nil {
		return "", fmt.Errorf("%w: %w", pack.ErrState, err)
	}
	sum := sha256.Sum256([]byte(run))
	return filepath.Join(o.stateFile, fmt.Sprintf("%s-%d-of-%d-%x.json", verb, o.part, o.parts, sum[:4])), nil
}

// run runs until the end, shows the progress, and returns the report, or nil if it did not begin. See
// pack.RunUntilStable.
func (o *walkOptions) run(ctx context.Context, w *openedStore, make func() (pack.Options, error)) (*pack.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gc.Relax()
	o.stop = o.stopOnSignal(cancel)
	all, err := pack.RunUntilStable(ctx, make, w.moved)
	o.show.End(all, err)
	if all == nil && !errors.Is(err, pack.ErrInterrupted) && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return all, w.runFailure(err, o.stateFile)
}

// stopOnSignal stops gently at the first signal and cancels at the second.
func (o *walkOptions) stopOnSignal(cancel func()) <-chan struct{} {
	stop := make(chan struct{})
	go func() {
		<-o.signals
		close(stop)
		<-o.signals
		cancel()
	}()
	return stop
}

// runFailure adds the exit code and a hint to an error that ended a run early.
func (w *openedStore) runFailure(err error, stateFile string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pack.ErrState):
		return terminal.WithHint(err, "processed keys stay processed; give a --state FILE that can be written")
	case errors.Is(err, pack.ErrInterrupted), errors.Is(err, context.Canceled):
		hint := "the same command starts from the beginning, and quickly skips processed keys"
		if stateFile != "" {
			hint = "the same command continues from here"
		}
		return withCode(exitInterrupted, terminal.WithHint(pack.ErrInterrupted, "%s", hint))
	case errors.Is(err, pack.ErrMismatch):
		return withCode(exitDifference, terminal.WithHint(err, "nothing was replaced there; please report this, with the value if you can"))
	case errors.Is(err, pack.ErrNoDictionary):
		return withCode(exitDictMissing, terminal.WithHint(err, "values that name it would be unreadable, so nothing more was replaced"))
	case errors.Is(err, pack.ErrNoRoom), errors.Is(err, store.ErrFull):
		return terminal.WithHint(err, "raise %s; processed keys stay processed", w.store.MemorySetting())
	case errors.Is(err, store.ErrReadOnly):
		return terminal.WithHint(err, "it is no longer the primary: give the address of the new one")
	}
	if strings.Contains(err.Error(), "DB index is out of range") {
		return terminal.WithHint(w.store.Explain(err), "the server has fewer databases: see its 'databases' setting, and --db or the end of the URL")
	}
	if strings.Contains(err.Error(), "LFU maxmemory policy") { // the server's error names its policy
		return terminal.WithHint(w.store.Explain(err), "--skip-idle-below is for servers that keep idle times, --skip-freq-above for those with an LFU policy")
	}
	return w.store.Explain(err)
}

// deniedHint adds a hint if dictionaries were missing or the user lacked rights.
func deniedHint(r *pack.Report, err error) error {
	switch {
	case r.Missing > 0:
		return terminal.WithHint(err, "'cinch dict import' restores a missing dictionary from a file that 'cinch dict export' wrote")
	case r.Skipped[store.Denied] == 0:
		return err
	}
	return terminal.WithHint(err, "docs/PACK.md lists the rights that the user in the URL needs, docs/TARANTOOL.md those for Tarantool")
}
