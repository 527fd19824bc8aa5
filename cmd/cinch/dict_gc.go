package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/ui"
)

type dictCollectOptions struct {
	url     string
	numbers []string
	wait    time.Duration
	dryRun  bool
	forget  bool
	yes     bool
	asJSON  bool

	out, notes io.Writer
}

func newDictCollectCommand() *cobra.Command {
	var o dictCollectOptions
	cmd := &cobra.Command{
		Use:   "gc URL [NUMBER…]",
		Short: "Archive dictionaries of a store that no value names any more",
		Long: `Archive dictionaries of a store that no value names any more.

Without numbers these are the dictionaries that gateways have made and replaced since. It scans all databases; what no
value names is retired, so that gateways stop naming it; it waits until the last of them must have heard of that, scans
again, and moves the dictionary into the archive. Nothing is lost: a value that the scans missed still opens, as readers
look into the archive too. "cinch dict import" takes a dictionary out again.

--forget erases archived dictionaries for good. A scan can't prove that nothing names one: it misses values that are
renamed meanwhile, and sees no backups. Values that name an erased dictionary can NEVER be read again. Keep a file of it
("cinch dict export") unless that is what you want.`,
		Example: `  cinch dict gc redis://127.0.0.1:6379
  cinch dict gc redis://127.0.0.1:6379 --dry-run
  cinch dict gc redis://127.0.0.1:6379 0a1b2c3d --forget --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url, o.numbers, o.out, o.notes = args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runDictCollect(cmd.Context(), o)
		},
	}
	cmd.Flags().DurationVar(&o.wait, "wait", storeredis.DefaultWait, "how long gateways may take to hear that a dictionary is retired")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "scan only, and say what would be archived")
	cmd.Flags().BoolVar(&o.forget, "forget", false, "erase archived dictionaries; give their numbers")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "with --forget: erase, instead of only saying what that means")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	return cmd
}

// collected is what became of one dictionary. Its JSON is a contract: fields are added,
// never renamed.
type collected struct {
	Number  string `json:"number"`
	Outcome string `json:"outcome"` // archived, idle (dry run), in use, forgotten, kept
	Values  int    `json:"values"`  // that name it
	Reason  string `json:"reason,omitempty"`
}

func runDictCollect(ctx context.Context, o dictCollectOptions) error {
	store, err := openStore(ctx, o.url)
	if err != nil {
		return err
	}
	defer store.Close()
	numbers, err := o.chosen(ctx, store)
	if err != nil {
		return err
	}
	var all []collected
	switch {
	case o.forget:
		all, err = o.forgetAll(ctx, store, numbers)
	case len(numbers) == 0:
		fmt.Fprintln(o.notes, "no gateway has replaced a dictionary here; name others by their numbers")
	case o.dryRun:
		all, err = o.look(ctx, store, numbers)
	default:
		all, err = o.collect(ctx, store, numbers)
	}
	return errors.Join(o.write(all), err)
}

// chosen are the dictionaries named, or those that gateways have made and replaced.
func (o dictCollectOptions) chosen(ctx context.Context, store *storeAccess) ([]uint32, error) {
	var numbers []uint32
	for _, text := range o.numbers {
		n, err := parseNumber(text)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	if len(numbers) > 0 || o.forget {
		return numbers, nil
	}
	managed, err := store.managed(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := store.listDictionaries(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range stored {
		if m := managed[i.Number]; m != nil && !m.Current && i.State != storeredis.Archived {
			numbers = append(numbers, i.Number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

func (o dictCollectOptions) look(ctx context.Context, store *storeAccess, numbers []uint32) ([]collected, error) {
	census, err := store.count(ctx)
	if err != nil {
		return nil, err
	}
	var all []collected
	for _, n := range numbers {
		c := collected{Number: fmt.Sprintf("%08x", n), Outcome: "idle", Values: census.ByDict[n]}
		if c.Values > 0 {
			c.Outcome = "in use"
		}
		all = append(all, c)
	}
	return all, nil
}

func (o dictCollectOptions) collect(ctx context.Context, store *storeAccess, numbers []uint32) ([]collected, error) {
	outcomes, err := storeredis.Collect(ctx, storeredis.CollectOptions{
		Dicts: store.dicts, Scan: store.scanOptions(), Wait: o.wait,
		Tell: func(format string, args ...any) { fmt.Fprintf(o.notes, format+"\n", args...) },
	}, numbers)
	var all []collected
	for _, out := range outcomes {
		c := collected{Number: fmt.Sprintf("%08x", out.Number), Outcome: "kept", Values: out.Values, Reason: out.Reason}
		switch {
		case out.Archived:
			c.Outcome = "archived"
		case out.Values > 0:
			c.Outcome = "in use"
		}
		all = append(all, c)
	}
	if err != nil {
		return all, store.failure(err)
	}
	return all, nil
}

const forgetWarning = "erasing a dictionary can't be undone: values that still name it, in this store or in any backup, can never be read again"

// forgetAll erases what is archived and what no value names, as far as a scan can see.
func (o dictCollectOptions) forgetAll(ctx context.Context, store *storeAccess, numbers []uint32) ([]collected, error) {
	if len(numbers) == 0 {
		return nil, errors.New("--forget takes the numbers of archived dictionaries")
	}
	fmt.Fprintln(o.notes, "warning: "+forgetWarning)
	if !o.yes {
		return nil, ui.WithHint(errors.New("nothing was erased"), "add --yes to erase; cinch dict export keeps a file of each")
	}
	census, err := store.count(ctx)
	if err != nil {
		return nil, err
	}
	var all []collected
	var errs []error
	for _, n := range numbers {
		c := collected{Number: fmt.Sprintf("%08x", n), Outcome: "in use", Values: census.ByDict[n]}
		if c.Values == 0 {
			c.Outcome = "forgotten"
			if err := store.dicts.Forget(ctx, n); err != nil {
				c.Outcome, c.Reason = "kept", err.Error()
				errs = append(errs, err)
			}
		} else {
			errs = append(errs, fmt.Errorf("dictionary %08x: %d values name it", n, c.Values))
		}
		all = append(all, c)
	}
	return all, errors.Join(errs...)
}

func (o dictCollectOptions) write(all []collected) error {
	if o.asJSON {
		return writeJSON(o.out, append([]collected{}, all...))
	}
	if len(all) == 0 {
		return nil
	}
	counts := map[string]int{}
	rows := make([][]string, len(all))
	for i, c := range all {
		rows[i] = []string{c.Number, c.Outcome, strconv.Itoa(c.Values), c.Reason}
		counts[c.Outcome]++
	}
	if err := ui.Table(o.out, []string{"number", "outcome", "values", "reason"}, rows); err != nil {
		return err
	}
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(o.notes, "%d %s\n", counts[outcome], outcome)
	}
	return nil
}
