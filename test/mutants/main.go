package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

type options struct {
	only    string
	ring    int
	run     string
	list    bool
	tree    string
	results string
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "run only this `AREA` or AREA/NAME")
	flag.IntVar(&o.ring, "ring", 0, "run only this ring, 1 or 2; 0: ring 2 where ring 1 does not find the fault")
	flag.StringVar(&o.run, "run", "", "run only tests that match `PATTERN` in ring 2")
	flag.BoolVar(&o.list, "list", false, "list the faults and exit")
	flag.StringVar(&o.tree, "tree", ".", "`DIR`ectory of the checkout to test")
	flag.StringVar(&o.results, "results", "test/mutants/results.csv", "append results to this CSV `FILE`")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "limit for a package's tests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, args []string) error {
	if len(args) > 0 || o.ring < 0 || o.ring > 2 {
		return errors.New("wrong arguments, see -help")
	}
	faults, err := loadFaults()
	if err != nil {
		return err
	}
	faults = slices.DeleteFunc(faults, func(f *fault) bool { return o.only != "" && o.only != f.area && o.only != f.String() })
	if len(faults) == 0 {
		return fmt.Errorf("no fault is named %s", o.only)
	}
	if o.list {
		return printList(os.Stdout, faults)
	}
	if o.tree, err = filepath.Abs(o.tree); err != nil {
		return err
	}
	commit, err := commitOf(o.tree)
	if err != nil {
		return err
	}
	known, err := readResults(o.results)
	if err != nil {
		return err
	}
	lost, failed := 0, 0
	for _, f := range faults {
		if f.Dropped != "" || known[[2]string{commit, f.String()}] {
			continue
		}
		r, err := try(ctx, o, f)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // the result is unknown
			failed++
			fmt.Fprintf(os.Stderr, "%s: ERROR: %v\n", f, err)
			continue
		case r.ring == 0:
			lost++
			fmt.Fprintf(os.Stderr, "%s: NOT FOUND, %.0f s\n", f, r.took.Seconds())
		default:
			fmt.Fprintf(os.Stderr, "%s: ring %d, %s, %.0f s\n", f, r.ring, r.test, r.took.Seconds())
		}
		if err := appendResult(o.results, commit, f, r); err != nil {
			return err
		}
	}
	if lost+failed > 0 {
		return fmt.Errorf("%d faults not found, %d not measured", lost, failed)
	}
	return nil
}

func printList(w io.Writer, faults []*fault) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range faults {
		says := f.Says
		if f.Dropped != "" {
			says = "DROPPED: " + f.Dropped
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f, f.Fix, strings.TrimSpace(says))
	}
	return table.Flush()
}

// commitOf returns the commit of a checkout, with a + if files outside test/mutants have changes.
func commitOf(tree string) (string, error) {
	commit, err := exec.Command("git", "-C", tree, "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse in %s: %w", tree, err)
	}
	changes, err := exec.Command("git", "-C", tree, "status", "--porcelain", "--", ".", ":!test/mutants").Output()
	if err != nil {
		return "", fmt.Errorf("git status in %s: %w", tree, err)
	}
	name := strings.TrimSpace(string(commit))
	if len(changes) > 0 {
		name += "+"
	}
	return name, nil
}

var columns = []string{"commit", "area", "fault", "ring", "test", "seconds"}

// readResults returns the pairs of commit and fault that were measured.
func readResults(name string) (map[[2]string]bool, error) {
	known := map[[2]string]bool{}
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return known, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	r := csv.NewReader(file)
	r.FieldsPerRecord = len(columns)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, row := range rows {
		known[[2]string{row[0], row[1] + "/" + row[2]}] = true
	}
	return known, nil
}

func appendResult(name, commit string, f *fault, r result) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		_ = w.Write(columns) // Flush reports errors
	}
	ring := "none"
	if r.ring > 0 {
		ring = strconv.Itoa(r.ring)
	}
	_ = w.Write([]string{commit, f.area, f.Name, ring, r.test, strconv.Itoa(int(r.took.Seconds()))})
	w.Flush()
	return errors.Join(w.Error(), file.Close())
}
