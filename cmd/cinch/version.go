package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and which zstd is built in",
		Example: `  cinch version`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVersion(cmd.OutOrStdout())
		},
	}
}

func runVersion(out io.Writer) error {
	b := readBuild()
	_, err := fmt.Fprintf(out, "cinch %s\nrevision: %s\ngo: %s %s/%s\nzstd: %s\n",
		b.version, cmp.Or(b.revision, "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH, defaultZstd())
	return err
}

// build says what was built. Both are filled in by the go command; "go run" knows no revision.
type build struct{ version, revision string }

func readBuild() build {
	b := build{version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	if b.revision != "" {
		b.revision += modified
	}
	return b
}
