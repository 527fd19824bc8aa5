package rig

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ParseFlags parses the flags of the example that the set is named after. --help prints about before the
// flags.
func ParseFlags(f *flag.FlagSet, args []string, about string) error {
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "%s\n\n  go run ./examples/%s [flags]\n\n", about, f.Name())
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is not a flag: see --help", f.Arg(0))
	}
	return nil
}

// Workspace creates a directory for an example and, if named is empty, builds cinch into it. The caller
// removes the directory.
func Workspace(named string) (dir, cinch string, err error) {
	if strings.ContainsRune(named, filepath.Separator) { // a path, which processes are started with in other directories
		if named, err = filepath.Abs(named); err != nil {
			return "", "", err
		}
	}
	if dir, err = os.MkdirTemp("", "cinch-example-"); err != nil || named != "" {
		return dir, named, err
	}
	cinch = filepath.Join(dir, "cinch")
	if err := Build(cinch, "github.com/cinch-layer/cinch/cmd/cinch"); err != nil {
		_ = os.RemoveAll(dir)
		return "", "", fmt.Errorf("%w\nrun it inside the repository, or give the path of a cinch program with --cinch", err)
	}
	return dir, cinch, nil
}
