package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
)

func describeStored(i store.DictInfo, source string) dictInfo {
	return dictInfo{
		Number: fmt.Sprintf("%08x", i.Number), SHA256: i.SHA256, Bytes: i.Bytes, Place: i.Place, State: string(i.State),
		Problem: i.Problem, Source: source,
	}
}

func newDictListCommand() *cobra.Command {
	var o dictListOptions
	cmd := &cobra.Command{
		Use:   "ls {DIR | FILE… | URL}",
		Short: "List dictionaries in files, in a directory's *.dict files, or in a store",
		Long: `List dictionaries in files, in a directory's *.dict files, or in a store.

Redis keeps them as function libraries, Redis 6 as keys of database 0, Tarantool in a space. For dictionaries that
gateways trained (dictionary: auto) the list shows the rule, the time, and the share of the values' memory that they
saved when they were tested. An entry that has a dictionary's name but is not one is listed with its problem.

--count scans the whole store and counts the values that name each dictionary. It can miss keys renamed meanwhile.`,
		Example: `  cinch dict ls /etc/cinch
  cinch dict ls redis://127.0.0.1:6379 --count
  cinch dict ls tarantool://cinch:secret@127.0.0.1:3301`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.from, o.out = args, cmd.OutOrStdout()
			return runDictList(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	cmd.Flags().BoolVar(&o.count, "count", false, "scan the store and count the values that name each dictionary")
	return cmd
}

type dictListOptions struct {
	from   []string
	asJSON bool
	count  bool
	out    io.Writer
}

func runDictList(ctx context.Context, o dictListOptions) error {
	all := []dictInfo{} // JSON: [] rather than null
	for _, source := range o.from {
		found, err := o.list(ctx, source)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	if o.asJSON {
		return writeJSON(o.out, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(o.out, "no dictionaries in %s\n", strings.Join(names(o.from), ", "))
		return err
	}
	columns := []string{"number", "bytes", "kind", "place", "source", "problem"}
	stored := slices.ContainsFunc(o.from, open.IsStoreURL)
	if stored {
		columns = slices.Insert(columns, 4, "state", "rule", "age", "gain", "values")
	}
	rows := make([][]string, len(all))
	for i, d := range all {
		rows[i] = []string{d.Number, strconv.Itoa(d.Bytes), d.kind(), cmp.Or(d.Place, "file"), d.Source, d.Problem}
		if stored {
			rows[i] = slices.Insert(rows[i], 4, d.storeColumns(time.Now())...)
		}
	}
	return terminal.Table(o.out, columns, rows)
}

// names returns the sources without credentials.
func names(sources []string) []string {
	all := make([]string, len(sources))
	for i, s := range sources {
		all[i] = open.Redact(s)
	}
	return all
}

// storeColumns returns the columns state, rule, age, gain and values.
func (i dictInfo) storeColumns(now time.Time) []string {
	values := ""
	if i.Values != nil {
		values = strconv.Itoa(*i.Values)
	}
	return slices.Concat([]string{i.State}, i.Managed.row(now), []string{values})
}

func (o dictListOptions) list(ctx context.Context, source string) ([]dictInfo, error) {
	if open.IsStoreURL(source) || strings.Contains(source, "://") {
		return o.listStore(ctx, source)
	}
	files := []string{source}
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(source, "*.dict")); err != nil {
			return nil, err
		}
	}
	var all []dictInfo
	for _, file := range files {
		d, err := loadDict(file)
		if err != nil {
			return nil, err
		}
		all = append(all, describeDict(d, file))
	}
	return all, nil
}

func (o dictListOptions) listStore(ctx context.Context, rawURL string) ([]dictInfo, error) {
	s, err := open.OpenAccess(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	found, err := s.DictAdmin().List(ctx)
	if err != nil {
		return nil, err
	}
	records, err := recordsOf(ctx, s.DictAdmin())
	if err != nil {
		return nil, err
	}
	made := managed(records)
	var census map[uint32]int
	if o.count {
		if census, err = s.DictAdmin().Count(ctx); err != nil {
			return nil, err
		}
	}
	var all []dictInfo
	for _, i := range found {
		d := describeStored(i, s.Name())
		d.Managed = made[i.Number]
		if o.count {
			values := census[i.Number]
			d.Values = &values
		}
		all = append(all, d)
	}
	return all, nil
}
