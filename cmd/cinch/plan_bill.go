package main

import (
	"context"
	"errors"
	"io"

	"github.com/cinch-layer/cinch/internal/estimate/bill"
	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

func runBill(ctx context.Context, o planOptions) error {
	r, err := bill.Read(ctx, o.bill)
	switch {
	case errors.Is(err, bill.ErrFormat):
		return terminal.WithHint(err, "export a cost and usage report (CUR) from AWS, as CSV or Parquet; docs/PLAN.md says which columns it needs")
	case err != nil:
		return err
	}
	if err := o.writePage(new(plan.CreatedFiles), func(w io.Writer) error { return page.Write(w, r.Page(o.bill)) }); err != nil {
		return err
	}
	if o.asJSON {
		return writeJSON(o.out, r)
	}
	return r.Print(o.out)
}
