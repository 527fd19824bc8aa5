package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/store/inspect"
)

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
