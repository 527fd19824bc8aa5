package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// checksums holds a query for the checksum of each table. It omits the time in pgbench_history, which each
// server sets itself.
var checksums = map[string]string{
	"pgbench_accounts": "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM pgbench_accounts t",
	"pgbench_tellers":  "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM pgbench_tellers t",
	"pgbench_branches": "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM pgbench_branches t",
	"pgbench_history":  "SELECT count(*), sum(hashtextextended((tid, bid, aid, delta)::text, 0)::numeric) FROM pgbench_history",
	"events":           "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM events t",
}

// compare measures the filesystems and compares the servers' data, independently of cinch shadow's report.
func (c *cell) compare(ctx context.Context, out *outcome) error {
	for i, s := range []*server{c.control, c.test} {
		var err error
		if out.Compsize[i], err = compsize(ctx, s.data); err != nil {
			return err
		}
	}
	for table, question := range checksums {
		want, err := sum(ctx, c.control, question)
		if err != nil {
			return err
		}
		others := []*server{c.test}
		if out.Whole {
			others = append(others, c.production)
		}
		for _, s := range others {
			got, err := sum(ctx, s, question)
			if err != nil {
				return err
			}
			if got != want {
				out.Unequal = append(out.Unequal, table)
			}
		}
	}
	return nil
}

func sum(ctx context.Context, s *server, question string) (text string, err error) {
	db, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return "", err
	}
	defer db.Close(context.WithoutCancel(ctx))
	var rows int64
	var hash string
	err = db.QueryRow(ctx, "SELECT count, sum::text FROM ("+question+") AS x").Scan(&rows, &hash)
	return fmt.Sprint(rows, " ", hash), err
}

var compsizeTotal = regexp.MustCompile(`(?m)^TOTAL\s+\S+\s+(\d+)`)

// compsize returns the disk usage that compsize reports for a directory, or 0 if it is not installed.
func compsize(ctx context.Context, directory string) (int64, error) {
	if _, err := exec.LookPath("compsize"); err != nil {
		return 0, nil
	}
	text, err := exec.CommandContext(ctx, "compsize", "-b", directory).Output()
	if err != nil {
		return 0, fmt.Errorf("compsize: %w", err)
	}
	m := compsizeTotal.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("compsize printed no total:\n%s", text)
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}

// print prints the report of cinch shadow and the results of compare.
func (o *outcome) print(out io.Writer) error {
	if err := o.Report.Text(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if end := o.Report.End; end != nil && end.Control.Disk > 0 {
		fmt.Fprintf(out, "Storage: %+.1f %%, from %.1f to %.1f MB.\n", 100*(float64(end.Test.Disk)/float64(end.Control.Disk)-1), float64(end.Control.Disk)/1e6, float64(end.Test.Disk)/1e6)
	}
	if o.Compsize[0] > 0 {
		fmt.Fprintf(out, "compsize:        from %.1f to %.1f MB.\n", float64(o.Compsize[0])/1e6, float64(o.Compsize[1])/1e6)
	} else {
		fmt.Fprintln(out, "compsize (btrfs-compsize) is not installed, so nothing was compared with it.")
	}
	whom := "Control and test"
	if o.Whole {
		whom = "Production, control and test"
	}
	if len(o.Unequal) > 0 {
		fmt.Fprintf(out, "%s differ in %v.\n", whom, o.Unequal)
	} else {
		fmt.Fprintf(out, "%s hold equal data in all %d tables, except for the time in pgbench_history.\n", whom, len(checksums))
	}
	fmt.Fprintf(out, "The page is %s.\n", o.page)
	return nil
}
