package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cinch-layer/cinch/internal/price/bill"
	"github.com/cinch-layer/cinch/internal/ui"
)

// shownTypes is how many usage types of a kind the table has.
const shownTypes = 3

func runBill(ctx context.Context, o planOptions) error {
	r, err := bill.Read(ctx, o.bill)
	switch {
	case errors.Is(err, bill.ErrFormat):
		return ui.WithHint(err, "export a cost and usage report (CUR) from AWS, as CSV or Parquet; docs/PLAN.md says which columns it takes")
	case err != nil:
		return err
	case o.asJSON:
		return writeJSON(o.out, r)
	}
	return printBill(o.out, r)
}

func printBill(out io.Writer, r *bill.Report) error {
	fmt.Fprintf(out, "%d lines, %s in all; compression can work on %s of it (%.0f%%).\n\n", r.Lines, money(r.Total), money(r.Reducible), 100*r.Reducible/r.Total)
	var rows [][]string
	for _, c := range r.Rows {
		rows = append(rows, []string{c.Name, money(c.Cost), fmt.Sprintf("%.1f%%", 100*c.Share), "-" + money(c.Cost/2)})
	}
	if err := ui.Table(out, []string{"what", "cost", "of the bill", "if halved"}, rows); err != nil {
		return err
	}
	for i, c := range r.Rows {
		var types []string
		for _, t := range c.Types[:min(len(c.Types), shownTypes)] {
			types = append(types, fmt.Sprintf("%s %s", t.Name, money(t.Cost)))
		}
		if more := len(c.Types) - shownTypes; more > 0 {
			types = append(types, fmt.Sprintf("%d more", more))
		}
		fmt.Fprintf(out, "\n%d. %s: %s\n   next: %s\n", i+1, c.Name, strings.Join(types, ", "), c.Next)
	}
	if len(r.Rows) == 0 {
		fmt.Fprintln(out, "Nothing in it is paid for by the byte.")
	}
	return nil
}

func money(v float64) string { return fmt.Sprintf("%.2f", v) }
