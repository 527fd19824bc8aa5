package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

type verifyOptions struct {
	storeOptions
	walkOptions
	match  string
	before bool
}

func newVerifyCommand() *cobra.Command {
	o := verifyOptions{walkOptions: walkOptions{verb: "verifying"}, storeOptions: storeOptions{readOnly: true, everywhere: true}}
	cmd := &cobra.Command{
		Use:   "verify [URL]",
		Short: "Read everything in a store and list what can't be decompressed",
		Long: `Read everything in a store, streams included, and list the compressed values that can't be decompressed. Nothing is
changed. These are listed as damaged: a value that begins with the magic (the first bytes of an envelope) and is not a
whole envelope, an envelope whose magic was overwritten, and an envelope behind other bytes, up to 256 bytes into the
value. An application's own values that contain envelopes are listed, too.

Before you first enable rules, use --before. It lists the plain values that happen to begin with the magic: a gateway
would treat them as damaged. Write those again through a gateway with enabled: false, which wraps them.

In a cluster it reads all primaries. With Tarantool it reads the masters of all shards: those that the server knows from
vshard, those of the configuration, or those that the URL names.

Exit codes: 0 every value can be decompressed, 1 failed, 2 the command line is wrong, 4 a value is damaged (with --before:
begins with the magic) or could not be read, 12 only dictionaries are missing (in a cluster: also on one node only), 10 a
store can't be reached, 11 configuration invalid, or the address is a gateway's, 130 interrupted.`,
		Example: `  cinch verify --before redis://cache.internal
  cinch verify --config cinch.yaml --gateway cache --keys-per-second 10000 --json
  cinch verify tarantool://cinch:secret@storage1.internal,storage2.internal`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.take(args); err != nil {
				return err
			}
			defer o.listen(cmd)()
			return runVerify(cmd.Context(), o)
		},
	}
	o.storeOptions.flags(cmd)
	o.walkOptions.flags(cmd, false)
	cmd.Flags().StringVar(&o.match, "key", "", "only keys that match `PATTERN`")
	cmd.Flags().BoolVar(&o.before, "before", false, "before rules are first enabled: list plain values that a gateway would treat as envelopes")
	return cmd
}

func runVerify(ctx context.Context, o verifyOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	w, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer func() { w.store.Close() }() // the store may be another one by then
	report, err := o.run(ctx, w, func() (pack.Options, error) {
		p := o.options(w)
		p.Task = &pack.Verify{Sealer: w.sealer(), Before: o.before, Match: matching(o.match)}
		p.Read = store.ReadOptions{Types: store.String | store.Hash | store.Stream}
		p.DryRun = true
		return p, nil
	})
	if report == nil {
		return err
	}
	if err := errors.Join(o.show.Table(report, ""), err); err != nil {
		return err
	}
	if err := o.verdict(report); err != nil || o.before {
		return err
	}
	return w.missingDictionaries(ctx, report)
}

// missingDictionaries returns an error that lists the nodes without a dictionary that values of other nodes name.
// A reader that asks only a value's own node, or a cluster restored from that node, would not find it.
func (w *openedStore) missingDictionaries(ctx context.Context, r *pack.Report) error {
	lacks, err := w.store.DictAdmin().Missing(ctx, r.Dictionaries())
	if err != nil || len(lacks) == 0 {
		return err
	}
	var missing []string
	for _, l := range lacks {
		missing = append(missing, fmt.Sprintf("%s lacks dictionary %08x, which values of the cluster name", l.Node, l.Number))
	}
	return withCode(exitDictMissing, terminal.WithHint(errors.New(strings.Join(missing, "; ")), "cinch dict sync, with the URL of any node, puts it there"))
}

func (o *verifyOptions) verdict(r *pack.Report) error {
	n := int(r.Problems)
	switch {
	case n == 0:
		return nil
	case o.before:
		return withCode(exitDifference, terminal.WithHint(fmt.Errorf("%s with the magic", count(n, "value begins", "values begin")),
			"write them again through a gateway with enabled: false, which wraps them"))
	case r.Missing == r.Problems:
		return withCode(exitDictMissing, terminal.WithHint(fmt.Errorf("%s a dictionary that is missing", count(n, "value names", "values name")),
			"give its file with --dict to check whether it decompresses them"))
	}
	err := fmt.Errorf("%s not decompress", count(n, "value does", "values do"))
	if r.Damaged > 0 && r.Missing == 0 && r.Skipped[store.Denied] == 0 {
		return withCode(exitDifference, terminal.WithHint(err, "either a script, a stored function or a client that bypasses the gateway has changed the envelope, or the value was written without Cinch and only begins with the magic or contains an envelope: 'cinch inspect' shows a value; writing it again through a gateway repairs it"))
	}
	return withCode(exitDifference, deniedHint(r, err))
}
