package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

type unpackOptions struct {
	storeOptions
	walkOptions
	match string
	force bool
}

func newUnpackCommand() *cobra.Command {
	o := unpackOptions{walkOptions: walkOptions{verb: "unpacking"}}
	cmd := &cobra.Command{
		Use:   "unpack [URL]",
		Short: "Decompress all data in a store: undo pack",
		Long: `Decompress all values of a store, so that it no longer needs a gateway, while clients go on using it.
Set enabled: false on all gateways first; otherwise gateways compress again what clients write.

A value is replaced only if no client has changed it meanwhile; type and expiry stay. Before it begins it estimates the
memory from a sample, and refuses if the server's maxmemory (or the machine's memory) can't hold the plain values.

It lists values that it can't decompress: those whose content begins with the magic (the first bytes of an envelope) and
which must stay wrapped, damaged envelopes, those whose dictionary is missing, and entries of streams. Dictionaries stay.

Exit codes: 0 done, 1 failed (not enough memory, say), 2 the command line is wrong, 3 finished, exceptions listed, 10 the
store can't be reached, 11 configuration invalid, or the address is a gateway's, 130 interrupted.`,
		Example: `  cinch unpack redis://cache.internal && cinch verify redis://cache.internal
  cinch unpack --config cinch.yaml --gateway cache --state unpack.state --max-latency 5ms
  cinch unpack redis://cache.internal --key 'menu:*'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.take(args); err != nil {
				return err
			}
			defer o.listen(cmd)()
			return runUnpack(cmd.Context(), o)
		},
	}
	o.storeOptions.flags(cmd)
	o.walkOptions.flags(cmd, true)
	cmd.Flags().StringVar(&o.match, "key", "", "only keys that match `PATTERN`")
	cmd.Flags().BoolVar(&o.force, "force", false, "run even if the server may run out of memory")
	return cmd
}

func runUnpack(ctx context.Context, o unpackOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	w, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer func() { w.store.Close() }() // the store may be another one by then
	report, err := o.run(ctx, w, func() (pack.Options, error) { return o.runOptions(ctx, w) })
	if report == nil {
		return err
	}
	if err := errors.Join(o.show.Table(report, "decompressed in place"), err); err != nil {
		return err
	}
	if report.Problems > 0 {
		return withCode(exitSkipped, deniedHint(report, fmt.Errorf("%s not decompressed in place", count(int(report.Problems), "value was", "values were"))))
	}
	return nil
}

// runOptions returns the options of a run over the current nodes.
func (o *unpackOptions) runOptions(ctx context.Context, w *openedStore) (pack.Options, error) {
	p := o.options(w)
	p.Task = &pack.Unpack{Sealer: w.sealer(), Match: matching(o.match), Policy: w.policy}
	p.Read = store.ReadOptions{Types: store.String | store.Hash | store.Stream}
	if !o.force {
		if !o.asJSON {
			terminal.Note(o.errs, "estimating from a sample whether memory suffices\n")
		}
		if err := w.checkRoom(ctx, p); err != nil {
			return p, err
		}
		p.CheckRoom = true
	}
	var err error
	p.State, err = o.state(w, "unpack", pack.Fingerprint(nil, o.match, fmt.Sprint(o.at.Databases)))
	return p, err
}

// matching returns a function that matches keys with a pattern; nil without one.
func matching(pattern string) func(string, []byte) bool {
	if pattern == "" {
		return nil
	}
	p := policy.Compile(pattern)
	return func(_ string, key []byte) bool { return p.Match(key) }
}

// checkRoom estimates whether the plain values will fit.
func (w *openedStore) checkRoom(ctx context.Context, p pack.Options) error {
	err := pack.Forecast(ctx, p)
	var s *pack.Shortage
	if errors.As(err, &s) {
		return terminal.WithHint(fmt.Errorf("%w: unpacking takes about %s more, and %s of %s are in use", s, terminal.Size(s.Need), terminal.Size(s.Used), terminal.Size(s.Limit)),
			"raise %s, unpack a part with --key, or try it with --force", w.store.MemorySetting())
	}
	return w.runFailure(err, "")
}
