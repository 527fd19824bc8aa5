// Command walk counts the code that one request touches: it builds cinch with every function of internal/, of
// the envelope and of codec reporting that it is entered, sends one warm request through it to the real
// server, and prints the number of calls, functions, files and packages, and how often the path returns to a
// file that it had left before. Functions that the compiler may inline count too, since a reader has to
// follow them.
//
//	go run ./internal/archtest/walk redis-set redis-get mongo-find tarantool-replace http-post
//	go run ./internal/archtest/walk grpc-unary grpc-unary-rule pack
//	go run ./internal/archtest/walk --path redis-set
//
// With --check, which .ci/run uses, it fails if a path exceeds its limit.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// path is a request with its limits of files and functions.
type path struct {
	name             string
	files, functions int // maximum
	walk             func(w *walker) ([]uint32, error)
}

// The limits are the present figures, plus a few functions, since other work of the process may be recorded
// too: a change that makes a path longer has to explain why. The goals were lower for four of them
// (docs/ARCHITECTURE.md).
var paths = []path{
	{"redis-set", 25, 93, (*walker).redisSet},
	{"redis-get", 22, 72, (*walker).redisGet},
	{"mongo-find", 30, 115, (*walker).mongoFind},
	{"tarantool-replace", 39, 152, (*walker).tarantoolReplace},
	{"http-post", 37, 148, (*walker).httpPost},
	{"grpc-unary", 28, 155, (*walker).grpcUnary},
	{"grpc-unary-rule", 57, 278, (*walker).grpcUnaryRule},
	{"pack", 24, 91, (*walker).pack},
}

func main() {
	check := flag.Bool("check", false, "fail where a path is longer than its limit")
	show := flag.Bool("path", false, "print each function that is entered, in order")
	flag.Usage = func() {
		fmt.Fprint(os.Stderr, "usage: walk [flags] [PATH...]\n\nPaths, all of them if none is given:\n")
		for _, p := range paths {
			fmt.Fprintln(os.Stderr, "  "+p.name)
		}
		fmt.Fprintln(os.Stderr, "\nFlags:")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Args(), *check, *show); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run(names []string, check, show bool) error {
	for _, name := range names {
		if !slices.ContainsFunc(paths, func(p path) bool { return p.name == name }) {
			return fmt.Errorf("no path %q; --help names them", name)
		}
	}
	dir, err := os.MkdirTemp("", "cinch-walk-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w := &walker{dir: dir}
	if w.binary, w.functions, err = build(dir); err != nil {
		return err
	}
	long := 0
	fmt.Printf("%-17s %6s %10s %6s %9s %6s %5s\n", "path", "calls", "functions", "files", "packages", "moves", "back")
	for _, p := range paths {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		entered, err := p.walk(w)
		w.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		c := w.count(entered)
		if show {
			w.print(entered)
		}
		over := ""
		if c.files > p.files || c.functions > p.functions {
			over = fmt.Sprintf("  more than %d files or %d functions", p.files, p.functions)
			long++
		}
		fmt.Printf("%-17s %6d %10d %6d %9d %6d %5d%s\n", p.name, c.calls, c.functions, c.files, c.packages, c.moves, c.back, over)
	}
	if check && long > 0 {
		return fmt.Errorf("%d paths are longer than their limits", long)
	}
	return nil
}

// counts holds the figures of one request.
type counts struct{ calls, functions, files, packages, moves, back int }

func (w *walker) count(entered []uint32) counts {
	functions, files, packages := map[uint32]bool{}, map[string]bool{}, map[string]bool{}
	c := counts{calls: len(entered)}
	last := ""
	for _, f := range entered {
		at := w.functions[f]
		if last != "" && at.file != last {
			c.moves++
			if files[at.file] {
				c.back++
			}
		}
		last = at.file
		functions[f], files[at.file], packages[at.pkg] = true, true, true
	}
	c.functions, c.files, c.packages = len(functions), len(files), len(packages)
	return c
}

func (w *walker) print(entered []uint32) {
	last := ""
	for _, f := range entered {
		at := w.functions[f]
		if at.file != last {
			fmt.Println(strings.TrimPrefix(at.file, "/"))
		}
		last = at.file
		fmt.Println("    " + at.name)
	}
}

// walker starts servers and the instrumented cinch, and records requests.
type walker struct {
	dir       string
	binary    string
	functions []function
	started   []interface{ Stop() }
}

// stop stops the servers that a path has started.
func (w *walker) stop() {
	for _, p := range w.started {
		p.Stop()
	}
	w.started = nil
}
