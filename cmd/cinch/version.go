package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/version"
)

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and which zstd is built in",
		Example: `  cinch version
  cinch version --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(readBuild())
			}
			_, err := io.WriteString(cmd.OutOrStdout(), readBuild().text())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

type build struct {
	version.Build
	Zstd string `json:"zstd"` // the implementation
}

func readBuild() build { return build{version.Read(), defaultZstd()} }

func (b build) text() string {
	return fmt.Sprintf("cinch %s\nrevision: %s\ngo: %s %s\nzstd: %s\n", b.Version, cmp.Or(b.Revision, "unknown"), b.Go, b.Platform, b.Zstd)
}
