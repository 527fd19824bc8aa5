package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/inspect"
	"github.com/cinch-layer/cinch/internal/store/open"
)

func newDictCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dict",
		Short: "Train, show and list dictionaries",
		Long: `Train, show and list dictionaries.

A dictionary holds content that values have in common, so that small values compress too. Keep it as long as any value
names it: without it that value can't be read. It never changes, and its number is computed from its content. It
contains pieces of the values that it was trained on, so its file is readable by its owner only.`,
		Example: `  cinch dict train --out orders.dict orders.jsonl
  cinch dict ls redis://127.0.0.1:6379`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newDictTrainCommand(), newDictShowCommand(), newDictListCommand(),
		newDictExportCommand(), newDictImportCommand(), newDictSyncCommand(), newDictCollectCommand())
	return cmd
}

// dictInfo describes a dictionary. Its JSON is a contract: fields are added, never renamed.
type dictInfo struct {
	Number  string `json:"number"` // 8 hex digits, as in a setting
	SHA256  string `json:"sha256"`
	Bytes   int    `json:"bytes"`
	Trained *bool  `json:"trained,omitempty"` // in zstd's format with its tables; false: raw content; nil: its content was not read
	Place   string `json:"place,omitempty"`   // in a store: "function", "key" or "space"
	Problem string `json:"problem,omitempty"` // why what is stored under this number can't be used
	Source  string `json:"source"`

	// For dictionaries in a store:
	State   string       `json:"state,omitempty"`   // live, retired or archived
	Managed *managedInfo `json:"managed,omitempty"` // nil: not made by a gateway, or unknown
	Values  *int         `json:"values,omitempty"`  // number of values that name it, with --count
}

func describeDict(d *codec.Dict, source string) dictInfo {
	trained := d.Trained()
	return dictInfo{
		Number:  fmt.Sprintf("%08x", d.Number()),
		SHA256:  fmt.Sprintf("%x", d.Hash()),
		Bytes:   len(d.Content()),
		Trained: &trained,
		Source:  source,
	}
}

func describeStored(i store.DictInfo, source string) dictInfo {
	return dictInfo{
		Number: fmt.Sprintf("%08x", i.Number), SHA256: i.SHA256, Bytes: i.Bytes, Place: i.Place, State: string(i.State),
		Problem: i.Problem, Source: source,
	}
}

func (i dictInfo) kind() string {
	switch {
	case i.Trained == nil:
		return "" // unknown
	case *i.Trained:
		return "trained"
	}
	return "raw content"
}

func newDictShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show FILE",
		Short:   "Show a dictionary's number, hash and content",
		Example: "  cinch dict show orders.dict",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDictShow(cmd.OutOrStdout(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func runDictShow(out io.Writer, file string, asJSON bool) error {
	d, err := loadDict(file)
	if err != nil {
		return err
	}
	info := describeDict(d, file)
	if asJSON {
		return writeJSON(out, info)
	}
	content := d.Content()
	_, err = fmt.Fprintf(out, "number   %s\nsha256   %s\nsize     %d bytes\nkind     %s\nsetting  zstd-3@%s\nends     %s\n",
		info.Number, info.SHA256, info.Bytes, info.kind(), info.Number,
		inspect.Preview(content[max(0, len(content)-64):], 64)) // the end is the most used part
	return err
}

// loadDict reads a dictionary's file. Errors name it.
func loadDict(file string) (*codec.Dict, error) {
	d, err := dict.Load(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, withCode(exitDictMissing, err)
	case err != nil:
		return nil, terminal.WithHint(err, "make one with cinch dict train")
	}
	return d, nil
}

// loadDicts reads files of dictionaries into a set.
func loadDicts(into *dict.Set, files []string) error {
	for _, file := range files {
		d, err := loadDict(file)
		if err != nil {
			return err
		}
		if err := into.Add(d); err != nil {
			return fmt.Errorf("dictionary %s: %w", file, err)
		}
	}
	return nil
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

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
