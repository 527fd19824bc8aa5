package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/inspect"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// maxInspectBytes limits what is read and decompressed: it is Redis's own limit for a value.
const maxInspectBytes = 512 << 20

type inspectOptions struct {
	target    string // a file, "-", or a store's URL
	key       string // only with a URL
	field     string // only with a key: the value of a hash's field, or of a tuple's
	space     string // only with a key, in Tarantool
	dictFiles []string
	asJSON    bool
	raw       bool

	in  io.Reader
	out io.Writer
}

func newInspectCommand() *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect {FILE | - | URL KEY}",
		Short: "Show a stored value's envelope, or that the value is plain",
		Long: `Show the fields of a stored value's envelope, whether it can be decompressed, and the first bytes of its content.

The stored value comes from a file, from standard input (-), or from a key of a store. Give the store's own URL, not a
gateway's: a gateway decompresses.
Dictionaries come from the files given with --dict, and from the store if there is one.

Exit codes: 0 the value can be decompressed or is plain, 1 failed, 2 the command line is wrong, 4 it is damaged, 10 the
store can't be reached, 11 the address is a gateway's, 12 its dictionary is missing.`,
		Example: `  cinch inspect value.bin
  redis-cli --raw GET menu:7 | head -c -1 | cinch inspect - --json
  cinch inspect redis://127.0.0.1:6379/0 menu:7
  cinch inspect redis://127.0.0.1:6379 user:7 --field profile --raw > profile.json
  cinch inspect tarantool://app:secret@127.0.0.1:3301 --space docs --field body 7`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.target, o.in, o.out = args[0], cmd.InOrStdin(), cmd.OutOrStdout()
			if len(args) == 2 {
				o.key = args[1]
			}
			return runInspect(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.field, "field", "", "`NAME` of the field of a hash or tuple")
	cmd.Flags().StringVar(&o.space, "space", "", "`NAME` of a space of Tarantool; the key is JSON, a list if it has several parts")
	cmd.Flags().StringArrayVar(&o.dictFiles, "dict", nil, "a dictionary's `FILE` (may be repeated)")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write the report as JSON")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "write the decompressed value itself instead of a report")
	cmd.MarkFlagsMutuallyExclusive("json", "raw")
	return cmd
}

func runInspect(ctx context.Context, o inspectOptions) error {
	var local dict.Set
	if err := loadDicts(&local, o.dictFiles); err != nil {
		return err
	}
	stored, dicts, done, err := o.read(ctx, &local)
	if err != nil {
		return err
	}
	defer done()
	s := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{}), Dicts: dicts, MaxOpen: maxInspectBytes})
	r := inspect.Inspect(s, stored)
	if err := o.write(r); err != nil {
		return err
	}
	return inspectFailure(r, open.IsStoreURL(o.target))
}

// read fetches the stored value, and returns the sources of a dictionary that it may name. A store stays open
// until done is called.
func (o inspectOptions) read(ctx context.Context, local *dict.Set) (stored []byte, dicts envelope.Dictionaries, done func(), err error) {
	if open.IsStoreURL(o.target) {
		stored, from, err := open.Value(ctx, o.target, store.Address{Space: o.space, Key: o.key, Field: o.field}, local)
		if err != nil {
			return nil, nil, nil, err
		}
		return stored, from.DictAdmin(), from.Close, nil
	}
	stored, err = o.readFile()
	return stored, store.MemoryDicts(local), func() {}, err
}

func (o inspectOptions) readFile() ([]byte, error) {
	if o.key != "" || o.field != "" {
		return nil, open.NotStoreURL(o.target)
	}
	if o.target == "-" {
		return readLimited(o.in, "standard input")
	}
	f, err := os.Open(o.target)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, o.target)
}

func readLimited(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInspectBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxInspectBytes {
		return nil, fmt.Errorf("%s: larger than %d MiB, the most that a stored value can have", name, maxInspectBytes>>20)
	}
	return b, nil
}

func (o inspectOptions) write(r inspect.Report) error {
	switch {
	case o.raw:
		_, err := o.out.Write(r.Value)
		return err
	case o.asJSON:
		enc := json.NewEncoder(o.out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	return r.WriteText(o.out)
}

// inspectFailure returns the command's error after the report.
func inspectFailure(r inspect.Report, storeAsked bool) error {
	switch r.Problem {
	case "":
		return nil
	case inspect.Damaged:
		return withCode(exitDifference, terminal.WithHint(r.Err, "if it was written before Cinch and only happens to begin with the magic, write it again through a gateway"))
	case inspect.DictionaryMissing:
		hint := "give its file with --dict, or inspect the key in its store: cinch inspect redis://HOST KEY"
		if storeAsked {
			hint = "the store does not hold it: give its file with --dict"
		}
		return withCode(exitDictMissing, terminal.WithHint(r.Err, "%s", hint))
	case inspect.UnknownCodec:
		return terminal.WithHint(r.Err, "a newer version of Cinch compressed it: use that version or a later one")
	}
	return r.Err
}
