package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
)

type dictCollectOptions struct {
	url     string
	numbers []string
	wait    time.Duration
	unused  time.Duration
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

Without numbers it takes the dictionaries that gateways have trained and since replaced, and those of rules that no
gateway has had for a long time (--unused). It
  1. scans the whole store: all databases, in a cluster all primaries, in Tarantool all spaces that the user may read
     (so use an administrator);
  2. retires the dictionaries that no value names, and waits (--wait) until all gateways must have learnt of it;
  3. scans again, and archives the dictionaries that are still not named.
Nothing is lost: readers look into the archive too, so values that the scans missed can still be read. 'cinch dict
import' makes an archived dictionary live again.

--forget erases archived dictionaries for good. A scan can't prove that no value names one: it misses keys that are
renamed meanwhile, and does not see backups. Values that name an erased dictionary can NEVER be read again. Keep a file
of it ('cinch dict export') to be able to restore it.`,
		Example: `  cinch dict gc redis://127.0.0.1:6379
  cinch dict gc redis://127.0.0.1:6379 --dry-run
  cinch dict gc redis://127.0.0.1:6379 0a1b2c3d --forget --yes
  cinch dict gc tarantool://admin:secret@127.0.0.1:3301`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url, o.numbers, o.out, o.notes = args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runDictCollect(cmd.Context(), o)
		},
	}
	cmd.Flags().DurationVar(&o.wait, "wait", store.DefaultWait, "`TIME` to wait until gateways have learnt that a dictionary is retired")
	cmd.Flags().DurationVar(&o.unused, "unused", defaultUnused, "archive the dictionaries of rules that no gateway has had for `TIME`")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "scan only, and list what would be archived")
	cmd.Flags().BoolVar(&o.forget, "forget", false, "erase archived dictionaries; give their numbers")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "with --forget: erase; without it only the consequences are printed")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	return cmd
}

// defaultUnused is long enough to repair a gateway that has failed. A running gateway records once a day that it has
// the rule.
const defaultUnused = 30 * 24 * time.Hour

// collected is the result for one dictionary, or for a rule's record. Its JSON is a contract: fields are
// added, never renamed.
type collected struct {
	Number  string `json:"number,omitempty"`
	Rule    string `json:"rule,omitempty"` // of a record
	Outcome string `json:"outcome"`        // archived, idle (dry run), in use, forgotten, kept; removed (a record)
	Values  int    `json:"values"`         // that name it
	Reason  string `json:"reason,omitempty"`
}

func runDictCollect(ctx context.Context, o dictCollectOptions) error {
	access, err := open.OpenAccess(ctx, o.url)
	if err != nil {
		return err
	}
	defer access.Close()
	s := access.DictAdmin()
	numbers, abandoned, err := o.chosen(ctx, s)
	if err != nil {
		return err
	}
	var all []collected
	switch {
	case o.forget:
		all, err = o.forgetAll(ctx, s, numbers)
	case len(numbers) == 0:
		fmt.Fprintln(o.notes, "nothing to collect: no gateway has replaced a dictionary here; give the numbers of others")
	case o.dryRun:
		all, err = o.look(ctx, s, numbers)
	default:
		all, err = o.collect(ctx, s, numbers)
	}
	if err == nil && !o.dryRun {
		var removed []collected
		removed, err = o.removeRecords(ctx, s, abandoned)
		all = append(all, removed...)
	}
	return errors.Join(o.write(all), err)
}

// chosen returns the dictionaries named, or else those that gateways have made and then replaced, or
// abandoned together with a rule. It returns the records of such rules as abandoned.
func (o dictCollectOptions) chosen(ctx context.Context, s store.DictAdmin) (numbers []uint32, abandoned []storedRecord, err error) {
	for _, text := range o.numbers {
		n, err := parseNumber(text)
		if err != nil {
			return nil, nil, err
		}
		numbers = append(numbers, n)
	}
	if len(numbers) > 0 || o.forget {
		return numbers, nil, nil
	}
	records, err := recordsOf(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	var kept []storedRecord
	for _, r := range records {
		if r.Abandoned(time.Now(), o.unused) {
			abandoned = append(abandoned, r)
		} else {
			kept = append(kept, r)
		}
	}
	stored, err := s.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	inRule, left := managed(kept), map[uint32]bool{}
	for _, r := range abandoned {
		for _, n := range r.Dictionaries() { // includes those not yet stored when the last gateway died
			left[uint32(n)] = true
		}
	}
	for _, i := range stored {
		m := inRule[i.Number]
		if (m == nil && left[i.Number] || m != nil && !m.Current) && !i.IsArchived() {
			numbers = append(numbers, i.Number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), abandoned, nil
}

// removeRecords deletes those abandoned records whose dictionaries are all archived. Until then the record
// tells where a dictionary comes from.
func (o dictCollectOptions) removeRecords(ctx context.Context, s store.DictAdmin, abandoned []storedRecord) ([]collected, error) {
	if len(abandoned) == 0 {
		return nil, nil
	}
	stored, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	inPlace := map[uint32]bool{}
	for _, i := range stored {
		inPlace[i.Number] = inPlace[i.Number] || !i.IsArchived()
	}
	var all []collected
	for _, r := range abandoned {
		if slices.ContainsFunc(r.Dictionaries(), func(n dictionary.Number) bool { return inPlace[uint32(n)] }) {
			continue
		}
		removed, err := s.DeleteRecord(ctx, r.at, func(text string) bool { // unless a gateway has written it meanwhile
			now, err := dictionary.ParseRecord(text)
			return err == nil && now.Abandoned(time.Now(), o.unused)
		})
		if err != nil {
			return all, err
		}
		if removed {
			all = append(all, collected{Rule: r.Rule, Outcome: "removed", Reason: "no gateway has had the rule since " + r.LastSeen().Format(time.DateOnly)})
		}
	}
	return all, nil
}

func (o dictCollectOptions) look(ctx context.Context, s store.DictAdmin, numbers []uint32) ([]collected, error) {
	census, err := s.Count(ctx)
	if err != nil {
		return nil, err
	}
	var all []collected
	for _, n := range numbers {
		c := collected{Number: fmt.Sprintf("%08x", n), Outcome: "idle", Values: census[n]}
		if c.Values > 0 {
			c.Outcome = "in use"
		}
		all = append(all, c)
	}
	return all, nil
}

func (o dictCollectOptions) collect(ctx context.Context, s store.DictAdmin, numbers []uint32) (all []collected, err error) {
	how := store.CollectOptions{Wait: o.wait, Tell: func(format string, args ...any) { fmt.Fprintf(o.notes, format+"\n", args...) }}
	outcomes, err := s.Collect(ctx, how, numbers)
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
	return all, err
}

const forgetWarning = "erasing a dictionary can't be undone: values that still name it, in this store or in any backup, can never be read again"

// forgetAll erases archived dictionaries that, according to a scan, no value names.
func (o dictCollectOptions) forgetAll(ctx context.Context, s store.DictAdmin, numbers []uint32) ([]collected, error) {
	if len(numbers) == 0 {
		return nil, wrongUsage(errors.New("--forget takes the numbers of archived dictionaries"))
	}
	fmt.Fprintln(o.notes, "warning: "+forgetWarning)
	if !o.yes {
		return nil, terminal.WithHint(errors.New("nothing was erased"), "add --yes to erase; cinch dict export keeps a file of each")
	}
	census, err := s.Count(ctx)
	if err != nil {
		return nil, err
	}
	var all []collected
	var errs []error
	for _, n := range numbers {
		c := collected{Number: fmt.Sprintf("%08x", n), Outcome: "in use", Values: census[n]}
		if c.Values == 0 {
			c.Outcome = "forgotten"
			if err := s.Forget(ctx, n); err != nil {
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
		rows[i] = []string{cmp.Or(c.Number, "rule "+c.Rule), c.Outcome, strconv.Itoa(c.Values), c.Reason}
		counts[c.Outcome]++
	}
	if err := terminal.Table(o.out, []string{"number", "outcome", "values", "reason"}, rows); err != nil {
		return err
	}
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(o.notes, "%d %s\n", counts[outcome], outcome)
	}
	return nil
}
