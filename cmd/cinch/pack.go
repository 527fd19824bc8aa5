package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/dictionary/ruledict"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

type packOptions struct {
	storeOptions
	walkOptions

	to        string
	always    bool
	recode    bool
	dryRun    bool
	sample    int
	idleBelow time.Duration
	freqAbove int
}

func newPackCommand() *cobra.Command {
	o := packOptions{walkOptions: walkOptions{verb: "packing"}, storeOptions: storeOptions{sealing: true}}
	cmd := &cobra.Command{
		Use:   "pack [URL]",
		Short: "Compress existing data in a store",
		Long: `Compress the values that a store already holds, by the rules of a gateway, while clients go on using the store. Before
you begin, all readers must use a gateway: clients that bypass it see compressed bytes. 'cinch unpack' undoes it.

A value is replaced only by an envelope that decompresses to it (this is verified), and only if no client has changed it
meanwhile; type and expiry stay. You may stop and repeat pack at any time: it skips compressed values, and with --state
it continues at the saved position. The first SIGINT or SIGTERM finishes what was begun and saves the position, the
second stops at once.

Rules come from --config, or from --rule as for 'cinch serve'. Without either, strings and hash values of 64 bytes or
more get zstd-3 and a dictionary, which is first trained on stored values. --to replaces the setting of all rules, and
recompresses values that are compressed already, where that saves bytes.

Compressing a value that a client's library has compressed saves nothing. Under a rule with a format (format: glide) the
value's content is compressed instead, and clients get it in that format again. A value that could not be restored byte
for byte is left alone, unless --allow-recode is given.

docs/PACK.md says what this means for WATCH, notifications, eviction and replication.

Exit codes: 0 done, 1 failed, 2 the command line is wrong, 3 finished, exceptions listed, 4 an envelope did not
decompress to its value, 10 the store can't be reached, 11 configuration invalid, or the address is a gateway's, 12 a
dictionary is missing, 130 interrupted.`,
		Example: `  cinch pack redis://cache.internal --rule 'key=menu:*,setting=zstd-6' --dry-run
  cinch pack --config cinch.yaml --gateway cache --state pack.state --keys-per-second 5000
  cinch pack --config cinch.yaml --gateway cache --to zstd-9 --skip-idle-below 10m
  cinch pack redis+cluster://node1.internal,node2.internal
  cinch pack redis://cache.internal --worker 2/3 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.take(args); err != nil {
				return err
			}
			defer o.listen(cmd)()
			return runPack(cmd.Context(), o)
		},
	}
	o.storeOptions.flags(cmd)
	o.walkOptions.flags(cmd, true)
	f := cmd.Flags()
	f.StringArrayVar(&o.rules, "rule", nil, "a rule, `KEY=VALUE,...`, where there is no configuration file (may be repeated, the first match decides)")
	f.StringVar(&o.to, "to", "", "`SETTING` that replaces the rules' own, also for compressed values: zstd-9, zstd-3@0a1b2c3d")
	f.BoolVar(&o.always, "even-larger", false, "with --to: change codec or dictionary of compressed values even where that saves nothing; values that gain nothing become plain")
	f.BoolVar(&o.recode, "allow-recode", false, "under rules with a format: compress values even if clients will get other bytes with the same content")
	f.BoolVar(&o.dryRun, "dry-run", false, "change nothing, and estimate from a sample what would be saved")
	f.IntVar(&o.sample, "sample", 20000, "with --dry-run: look at about `N` keys, 0 for all")
	f.DurationVar(&o.idleBelow, "skip-idle-below", 0, "skip keys that were used less than `TIME` ago")
	f.IntVar(&o.freqAbove, "skip-freq-above", 0, "skip keys whose LFU counter is above `N` (servers with an LFU policy)")
	return cmd
}

func runPack(ctx context.Context, o packOptions) error {
	to, err := o.checkFlags()
	if err != nil {
		return wrongUsage(err)
	}
	o.readOnly = o.dryRun
	w, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer func() { w.store.Close() }() // the store may be another one by then
	if err := o.checkPolicy(w); err != nil {
		return err
	}
	report, err := o.run(ctx, w, func() (pack.Options, error) { return o.runOptions(ctx, w, to) })
	if report == nil {
		return err
	}
	if err := errors.Join(o.showReport(report), err); err != nil {
		return err
	}
	if report.Problems > 0 {
		return withCode(exitSkipped, deniedHint(report, fmt.Errorf("%s could not be packed", count(int(report.Problems), "value", "values"))))
	}
	return nil
}

// runOptions returns the options of a run over the current nodes.
func (o *packOptions) runOptions(ctx context.Context, w *openedStore, to codec.Setting) (pack.Options, error) {
	p := o.options(w)
	if err := o.publish(ctx, w, to); err != nil {
		return p, err
	}
	p.Read = store.ReadOptions{Types: store.String | store.Hash, MaxBytes: int(w.gateway.MaxSeal), IdleBelow: o.idleBelow, FreqAbove: o.freqAbove}
	rules, writer := w.policy, (func(string, []byte) (string, bool))(nil)
	if o.to == "" {
		how := o.dictionaries(w, p)
		chosen, writers, err := ruledict.Choose(ctx, how)
		if err != nil {
			return p, err
		}
		rules, writer, p.TrainingCPU = chosen, writers.Of, how.Trainer.Worked()
	}
	ready := func(number uint32) bool {
		return o.dryRun || store.ReadyNow(context.Background(), w.store.Dicts(), number, open.AnswerTimeout)
	}
	sealing := w.store.CompressionRules(rules)
	if sealing.Incomplete != nil {
		if err := sealing.Incomplete(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	p.Task = &pack.Seal{Policy: rules, Sealer: w.sealer(), Ready: ready, Override: to, Force: o.always, AllowRecode: o.recode, Rule: sealing.Rule, Indexed: sealing.Indexed, Writer: writer}
	if p.DryRun = o.dryRun; o.dryRun {
		p.Sample = o.sample
	}
	var err error
	p.State, err = o.packState(w)
	return p, err
}

// dictionaries returns the options for making dictionaries for rules with `dictionary: auto`.
func (o *packOptions) dictionaries(w *openedStore, walk pack.Options) ruledict.Options {
	progress := terminal.NewProgress(o.errs)
	return ruledict.Options{
		Store: w.store, Policy: w.policy, Sealer: w.sealer(), Timeout: open.AnswerTimeout, DryRun: o.dryRun, Local: &w.local, Walk: walk,
		Trainer: dictionary.NewTrainer(dictionary.TrainerOptions{
			NewEngine: func() *codec.Engine {
				e, err := engineWith(w.cfg.Zstd)
				if err != nil { // can't fail: it worked when the store was opened
					return w.engine
				}
				return e
			},
			External: trainerOf(w.engine), Share: 1,
		}),
		NoSample: w.gateway.NoSample(), MaxSample: int(w.cfg.Training.MaxSample), MinSaving: w.cfg.Training.MinSaving.Share(),
		Tell: o.tellChoice,
		OnSampling: func(going bool) {
			if progress.Clear(); going && !o.asJSON {
				progress.Show(0, "training dictionaries")
			}
		},
	}
}

func (o *packOptions) tellChoice(c ruledict.Outcome) {
	rule := c.Rule
	if c.Login != "" {
		rule += ", values of user " + c.Login
	}
	switch {
	case o.asJSON:
	case c.Waits:
		terminal.Note(o.errs, "rule %s: a gateway, or another cinch pack, is training a dictionary; waiting for it\n", rule)
	case c.Several:
		fmt.Fprintf(o.errs, "rule %s: values are compressed without a dictionary where several users may write, or it is unknown who may; separate keys in the users' rights, or share_samples: true, allow one\n", rule)
	case c.Dict == nil && c.Trouble != "":
		fmt.Fprintf(o.errs, "rule %s: values are compressed without a dictionary: %s\n", rule, c.Trouble)
	case c.Dict == nil:
		fmt.Fprintf(o.errs, "rule %s: no dictionary that saves bytes could be trained%s; values are compressed without one\n", rule, withCPU(c.CPU))
	default:
		terminal.Note(o.errs, "rule %s: dictionary %08x of %s was trained on stored values%s\n", rule, c.Dict.Number(), terminal.Size(int64(len(c.Dict.Content()))), withCPU(c.CPU))
	}
}

// withCPU returns the CPU time of a training, to follow what it did; "" if there was none here.
func withCPU(cpu time.Duration) string {
	if cpu == 0 {
		return ""
	}
	return fmt.Sprintf(" (cpu=%.2fs)", cpu.Seconds())
}

func (o *packOptions) checkFlags() (to codec.Setting, err error) {
	if err := o.check(); err != nil {
		return to, err
	}
	if o.to != "" {
		if to, err = codec.ParseSetting(o.to); err != nil {
			return to, terminal.WithHint(fmt.Errorf("--to: %w", err), "write a setting as in a rule: zstd-9, lz4, zstd-3@0a1b2c3d")
		}
		if to.Codec == codec.Raw {
			return to, terminal.WithHint(errors.New("--to raw compresses nothing"), "'cinch unpack' decompresses stored values")
		}
	}
	switch {
	case o.sample < 0, o.idleBelow < 0, o.freqAbove < 0:
		return to, errors.New("--sample, --skip-idle-below and --skip-freq-above can't be negative")
	case o.always && o.to == "":
		return to, errors.New("--even-larger needs --to")
	case o.idleBelow > 0 && o.freqAbove > 0:
		return to, terminal.WithHint(errors.New("--skip-idle-below and --skip-freq-above exclude each other"), "a server keeps either idle times or frequencies, depending on its maxmemory-policy")
	}
	return to, nil
}

func (o *packOptions) checkPolicy(w *openedStore) error {
	if err := w.store.CanRead(store.ReadOptions{IdleBelow: o.idleBelow, FreqAbove: o.freqAbove}); err != nil {
		return wrongUsage(fmt.Errorf("--skip-idle-below and --skip-freq-above are for Redis: %w", err))
	}
	if w.policy.Off {
		return terminal.WithHint(fmt.Errorf("gateway %s has enabled: false, so there is nothing to pack", w.gateway.Name), "set enabled: true, and reload the gateways first")
	}
	return nil
}

// publish puts all dictionaries that values are going to name into the store.
func (o *packOptions) publish(ctx context.Context, w *openedStore, to codec.Setting) error {
	numbers := w.policy.Dictionaries()
	if o.to != "" {
		numbers = nil
		if to.Dict != 0 {
			numbers = []uint32{to.Dict}
		}
	}
	if o.dryRun {
		for _, n := range numbers {
			if _, err := w.store.Dicts().Dictionary(n); err != nil {
				return w.dictFailure(fmt.Errorf("dictionary %08x: %w", n, err))
			}
		}
		return nil
	}
	return w.dictFailure(store.PublishByNumber(ctx, w.store.Dicts(), numbers...))
}

func (w *openedStore) dictFailure(err error) error {
	if errors.Is(err, envelope.ErrDictMissing) {
		return withCode(exitDictMissing, terminal.WithHint(err, "it is neither in the store nor in a given file: give its file with --dict"))
	}
	if err != nil {
		return w.store.Explain(err)
	}
	return nil
}

func (o *packOptions) packState(w *openedStore) (*pack.State, error) {
	if o.dryRun {
		return nil, nil
	}
	more := append([]string{o.to, fmt.Sprint(o.always), fmt.Sprint(o.recode), fmt.Sprint(o.at.Databases)}, w.gateway.Exclude...)
	return o.state(w, "pack", pack.Fingerprint(w.policy, more...))
}

// showReport writes the report, and for a dry run an estimate for all keys.
func (o *packOptions) showReport(r *pack.Report) error {
	done := "packed"
	if o.dryRun {
		done = "that would be packed"
	}
	if err := o.show.Table(r, done); err != nil || !o.dryRun || o.asJSON {
		return err
	}
	saved, margin := r.Estimate()
	_, err := fmt.Fprintf(o.out, "\npacking all %d keys would save about %s (give or take %s), estimated from %d keys; nothing was changed\n",
		max(r.Total, r.Keys), terminal.Size(saved), terminal.Size(margin), r.Keys)
	return err
}
