package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/output/terminal"
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

func (i dictInfo) kind() string {
	switch {
	case i.Trained == nil:
		return "" // unknown
	case *i.Trained:
		return "trained"
	}
	return "raw content"
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

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
