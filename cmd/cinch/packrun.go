package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/heap"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/ui"
)

// walkOptions are what pack, unpack and verify have in common: how fast, how shared out,
// how shown.
type walkOptions struct {
	verb string // "packing"

	worker     string // K/N
	parallel   int
	keysPerSec float64
	bytes      string // per second
	maxLatency time.Duration
	noBackoff  bool
	stateFile  string
	asJSON     bool

	out, errs io.Writer
	signals   <-chan os.Signal

	part, parts    int             // worker
	bytesPerSecond float64         // bytes
	stop           <-chan struct{} // of the run: closed by the first signal
}

func (o *walkOptions) flags(cmd *cobra.Command, resumes bool) {
	f := cmd.Flags()
	f.StringVar(&o.worker, "worker", "1/1", "`K/N`: take the K-th part of the keys, of N processes that share them")
	f.IntVar(&o.parallel, "parallel", 4, "`PAGES` of keys in work at the same time on each node")
	f.Float64Var(&o.keysPerSec, "keys-per-second", 0, "look at no more keys than `N` a second (default no limit)")
	f.StringVar(&o.bytes, "bytes-per-second", "", "read no more than `SIZE` a second (default no limit)")
	f.DurationVar(&o.maxLatency, "max-latency", 0, "slow down when a PING takes longer than `TIME` (default: than twice what it took at best, and 1ms more)")
	f.BoolVar(&o.noBackoff, "no-backoff", false, "don't slow down with the server")
	f.BoolVar(&o.asJSON, "json", false, "write events as JSON, one a line")
	if resumes {
		f.StringVar(&o.stateFile, "state", "", "`FILE` to keep the position in, and to go on from")
	}
}

// listen takes the command's outputs and signals.
func (o *walkOptions) listen(cmd *cobra.Command) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	o.out, o.errs, o.signals = cmd.OutOrStdout(), cmd.ErrOrStderr(), signals
	return func() { signal.Stop(signals) }
}

// check reads the flags, and refuses what would be taken for the default, or for no limit.
func (o *walkOptions) check() error {
	for flag, negative := range map[string]bool{
		"parallel": o.parallel < 1, "keys-per-second": o.keysPerSec < 0, "max-latency": o.maxLatency < 0,
	} {
		if negative {
			return wrongUsage(ui.WithHint(fmt.Errorf("--%s is too small", flag), "leave it out for the default"))
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

func (o *walkOptions) checkWorker() error {
	k, n, ok := strings.Cut(o.worker, "/")
	var err, err2 error
	o.part, err = strconv.Atoi(k)
	o.parts, err2 = strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || o.part < 1 || o.part > o.parts {
		return ui.WithHint(fmt.Errorf("--worker %q is not K/N with K from 1 to N", o.worker), "the second of three processes has --worker 2/3")
	}
	return nil
}

// options are the run's, without what only one of the commands has.
func (o *walkOptions) options(w *where) pack.Options {
	return pack.Options{
		Targets: w.store.Targets(), Parallel: o.parallel, KeysPerSecond: o.keysPerSec, BytesPerSecond: o.bytesPerSecond,
		Worker: o.part, Workers: o.parts,
		MaxLatency: o.maxLatency, NoBackoff: o.noBackoff, Unavailable: w.store.Unavailable, Stop: o.stop,
	}
}

// state opens the state file, if there is to be one.
func (o *walkOptions) state(w *where, verb, fingerprint string) (*pack.State, error) {
	if o.stateFile == "" {
		return nil, nil
	}
	s, err := pack.OpenState(o.stateFile, fmt.Sprintf("%s %s worker %s", verb, w.store.Name(), o.worker), fingerprint)
	if errors.Is(err, pack.ErrOtherState) {
		err = ui.WithHint(err, "give another --state FILE, or delete this one to begin anew")
	}
	if errors.Is(err, pack.ErrState) {
		err = w.runFailure(err, o.stateFile)
	}
	return s, err
}

// run shows a run while it goes on, and returns its report, nil when it did not begin. In a cluster it walks again
// when slots have moved meanwhile, for keys may have moved past it; make makes the
// options anew then.
func (o *walkOptions) run(ctx context.Context, w *where, make func() (pack.Options, error)) (*pack.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heap.Relax()
	o.stop = o.stopOnSignal(cancel)
	show := &shower{o: o, bar: ui.NewProgress(o.errs)}
	var all *pack.Report
	var err error
	for range maxPasses {
		var p pack.Options
		if p, err = make(); err != nil {
			break
		}
		p.Tell = show.tell
		var report pack.Report
		if report, err = pack.Run(ctx, p); all == nil {
			all = &report
		} else {
			all.Join(&report)
		}
		if pack.Final(err) || p.Sample > 0 || err != nil && !w.store.Unavailable(err) || !w.moved(ctx) {
			break
		}
		show.tell(pack.Event{Notice: "slots of the cluster have moved meanwhile, so once more"})
	}
	show.bar.Clear()
	if all == nil {
		return nil, err
	}
	if o.asJSON {
		show.event(map[string]any{"event": "end", "report": reportJSON(all), "error": errorText(err)})
	}
	return all, w.runFailure(err, o.stateFile)
}

// maxPasses bounds the walks over a cluster whose slots keep moving.
const maxPasses = 20

// stopOnSignal asks to stop at the first signal and cancels at the second.
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

func errorText(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}

// runFailure gives what ended a run early its exit code and hint.
func (w *where) runFailure(err error, stateFile string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pack.ErrState):
		return ui.WithHint(err, "what is done stays done; give a --state FILE that can be written")
	case errors.Is(err, pack.ErrInterrupted), errors.Is(err, context.Canceled):
		hint := "the same command begins anew; what is done is passed over quickly"
		if stateFile != "" {
			hint = "the same command goes on from here"
		}
		return withCode(exitInterrupted, ui.WithHint(pack.ErrInterrupted, "%s", hint))
	case errors.Is(err, pack.ErrMismatch):
		return withCode(exitDifference, ui.WithHint(err, "nothing was replaced there; please report this, with the value if you can"))
	case errors.Is(err, pack.ErrNoDictionary):
		return withCode(exitDictMissing, ui.WithHint(err, "values that name it would be unreadable, so nothing more was replaced"))
	case errors.Is(err, pack.ErrNoRoom), errors.Is(err, store.ErrFull):
		return ui.WithHint(err, "raise %s; what is done stays done", w.store.MemorySetting())
	case errors.Is(err, store.ErrReadOnly):
		return ui.WithHint(err, "it was the primary before: give the address of the new one")
	}
	if strings.Contains(err.Error(), "DB index is out of range") {
		return ui.WithHint(w.store.Explain(err), "the server has fewer databases: see its 'databases' setting, and --db or the end of the URL")
	}
	if strings.Contains(err.Error(), "LFU maxmemory policy") { // which one it has, the server's error says
		return ui.WithHint(w.store.Explain(err), "--skip-idle-below is for servers that keep idle times, --skip-freq-above for those with an LFU policy")
	}
	return w.store.Explain(err)
}

// shower writes events for people, or as JSON.
type shower struct {
	o      *walkOptions
	bar    *ui.Progress
	last   time.Time
	denied int
}

// maxDenied is how many values are listed for people that the user has no right to: with
// the wrong user these are all there are.
const maxDenied = 10

func (s *shower) tell(e pack.Event) {
	switch {
	case e.Problem != nil && s.o.asJSON:
		p := e.Problem
		s.event(map[string]any{
			"event": "problem", "space": p.Space, "key": string(p.Value.Key), "field": string(p.Value.Field),
			"entry": p.Value.ID, "error": p.Err.Error(),
		})
	case e.Problem != nil:
		s.problem(e.Problem)
	case e.Notice != "" && s.o.asJSON:
		s.event(map[string]any{"event": "notice", "text": e.Notice})
	case e.Notice != "":
		s.bar.Print(e.Notice)
	case s.o.asJSON:
		if now := time.Now(); now.Sub(s.last) >= time.Second {
			s.last = now
			s.event(progressJSON(e.Progress))
		}
	default:
		s.bar.Show(e.Progress.Done, s.line(e.Progress))
	}
}

func (s *shower) problem(p *pack.Problem) {
	if errors.Is(p.Err, pack.ErrDenied) {
		s.denied++
	}
	switch {
	case s.denied <= maxDenied || !errors.Is(p.Err, pack.ErrDenied):
		s.bar.Clear()
		fmt.Fprintf(s.o.out, "%s %s: %v\n", p.Space, pack.Where(p.Value), p.Err)
	case s.denied == maxDenied+1:
		s.bar.Clear()
		fmt.Fprintln(s.o.out, "more of these are only counted; --json lists all")
	}
}

// deniedHint adds what to do where the user lacked rights.
func deniedHint(r *pack.Report, err error) error {
	if r.Left[store.Denied] == 0 {
		return err
	}
	return ui.WithHint(err, "docs/PACK.md says which rights the user in the URL needs, docs/TARANTOOL.md those of Tarantool")
}

func (s *shower) line(p *pack.Progress) string {
	text := fmt.Sprintf("%s  %d keys  %.0f/s  %d values", s.o.verb, p.Keys, p.PerSecond, p.Replaced)
	if p.Saved() != 0 {
		text += "  " + ui.Size(p.Saved()) + " saved"
	}
	if p.Problems > 0 {
		text += fmt.Sprintf("  %d problems", p.Problems)
	}
	if p.Duty < 1 {
		text += fmt.Sprintf("  at %.0f%% of full speed", 100*p.Duty)
	}
	if p.Remaining > 0 {
		text += "  " + p.Remaining.Round(time.Second).String() + " left"
	}
	return text
}

func (s *shower) event(e map[string]any) {
	enc := json.NewEncoder(s.o.out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e)
}

func progressJSON(p *pack.Progress) map[string]any {
	return map[string]any{
		"event": "progress", "done": p.Done, "keys": p.Keys, "keys_per_second": p.PerSecond, "replaced": p.Replaced,
		"saved_bytes": p.Saved(), "seconds_left": p.Remaining.Seconds(), "duty": p.Duty,
	}
}

func reportJSON(r *pack.Report) map[string]any {
	saved, margin := r.Estimate()
	return map[string]any{
		"estimated_saved_bytes": saved, "estimated_margin_bytes": margin,
		"keys": r.Keys, "keys_total": r.Total, "values": r.Values, "replaced": r.Replaced,
		"stored_bytes_before": r.StoredBefore, "stored_bytes_after": r.StoredAfter,
		"allocated_bytes_before": r.CostBefore, "allocated_bytes_after": r.CostAfter, "left": r.Left,
		"opens": r.Opens, "raced": r.Raced, "rebuilt": r.Rebuilt, "problems": r.Problems,
		"damaged": r.Damaged, "dictionary_missing": r.Missing,
		"memory_usage_sampled": r.Sampled, "memory_usage_before": r.SampleBefore, "memory_usage_after": r.SampleBytes,
		"tuple_bytes_before": r.TuplesBefore, "tuple_bytes_after": r.TuplesAfter,
		"used_memory_before": r.UsedBefore, "used_memory_after": r.UsedAfter, "seconds": r.Took.Seconds(),
	}
}

// table writes the report for people. done is what happened to values, "packed", if anything could.
func (o *walkOptions) table(r *pack.Report, done string) error {
	if o.asJSON {
		return nil
	}
	rows := [][]string{
		{"keys looked at", fmt.Sprintf("%d of %d", r.Keys, r.Total)},
		{"values read", strconv.FormatInt(r.Values, 10)},
	}
	add := func(what, format string, args ...any) {
		rows = append(rows, []string{what, fmt.Sprintf(format, args...)})
	}
	if done != "" {
		add("values "+done, "%d", r.Replaced)
	}
	if r.Replaced > 0 {
		add("their length", "%s -> %s", ui.Size(r.StoredBefore), ui.Size(r.StoredAfter))
		add("allocated for them, computed", "%s -> %s (%s)", ui.Size(r.CostBefore), ui.Size(r.CostAfter), change(r.CostBefore, r.CostAfter))
	}
	if r.Sampled > 0 {
		add("MEMORY USAGE", "%s -> %s in a sample of %d keys (%s)", ui.Size(r.SampleBefore), ui.Size(r.SampleBytes), r.Sampled, change(r.SampleBefore, r.SampleBytes))
	}
	if r.Rebuilt > 0 {
		add("hashes made listpacks", "%d", r.Rebuilt)
	}
	for _, setting := range slices.Sorted(maps.Keys(r.Opens)) {
		add("opens: "+setting, "%d", r.Opens[setting])
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Left)) {
		if reason != pack.Opened {
			add("left: "+string(reason), "%d", r.Left[reason])
		}
	}
	if r.Raced > 0 {
		add("a writer was faster", "%d times", r.Raced)
	}
	if r.Problems > 0 {
		add("problems", "%d", r.Problems)
	}
	if r.TuplesBefore > 0 {
		add("tuples of these spaces", "%s -> %s (%s)", ui.Size(r.TuplesBefore), ui.Size(r.TuplesAfter), change(r.TuplesBefore, r.TuplesAfter))
	}
	add("used memory, with all that went on", "%s -> %s", ui.Size(r.UsedBefore), ui.Size(r.UsedAfter))
	add("time", "%s", r.Took.Round(time.Millisecond))
	return ui.Table(o.out, []string{"what", "how much"}, rows)
}

func change(before, after int64) string {
	if before == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%+.1f%%", 100*(float64(after)/float64(before)-1))
}
