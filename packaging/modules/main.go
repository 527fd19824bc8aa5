package main

import (
	"fmt"
	"os"
)

const usage = `usage: go run ./packaging/modules check | proxy DIR | set VERSION | tidy`

func main() {
	if err := run(tree{"."}, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(t tree, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "check":
		return t.check()
	case len(args) == 1 && args[0] == "tidy":
		return t.tidy()
	case len(args) == 2 && args[0] == "set":
		return t.set(args[1])
	case len(args) == 2 && args[0] == "proxy":
		version, err := t.version()
		if err != nil {
			return err
		}
		return t.serve(args[1], version, published)
	}
	return fmt.Errorf("%s", usage)
}
