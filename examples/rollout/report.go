package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// wrong returns errors for all broken promises. It does not check times, since the machine may be busy.
func (o *outcome) wrong() error {
	var wrong []error
	for _, w := range []struct {
		n    int
		what string
	}{
		{o.Bench.Failed, "transactions of pgbench failed"},
		{abs(o.Bench.There - o.Bench.Committed), "transactions of pgbench are missing or applied twice"},
		{o.Bench.Unbalanced, "sums of pgbench differ"},
		{o.Bank.Lost, "transfers are lost"},
		{o.Bank.Twice, "transfers were applied twice"},
		{o.Bank.Strange, "transfers exist that no client made"},
		{o.Bank.Wrong, "accounts have a wrong balance"},
		{o.reconnects(), "clients had to connect again"},
		{len(o.Unequal), "tables differ between the new nodes"},
	} {
		if w.n > 0 {
			wrong = append(wrong, fmt.Errorf("%d %s", w.n, w.what))
		}
	}
	for name, off := range o.off() {
		if math.Abs(off) > tolerance {
			wrong = append(wrong, fmt.Errorf("the size of %s differs by %+.1f %% from the prediction", name, 100*off))
		}
	}
	return errors.Join(wrong...)
}

// tolerance limits the relative difference between the size of a base backup and the prediction.
const tolerance = 0.02

// off returns that difference by node.
func (o *outcome) off() map[string]float64 {
	off := map[string]float64{}
	for name, p := range o.State.Nodes {
		off[name] = ratio(p.Backup.Data, p.Predicted.Bytes) - 1
	}
	return off
}

func (o *outcome) reconnects() (n int) {
	for _, t := range o.Tellers {
		n += t.reconnects
	}
	return n
}

func abs(n int) int { return max(n, -n) }

func ratio(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }

// pause returns the longest time that a client was held.
func (o *outcome) pause() time.Duration { return o.Gateway.Longest.Or(0) }

// worst returns the longest pgbench transaction during the primary's switchover, from when it was due to its
// end.
func (o *outcome) worst() time.Duration {
	if len(o.Bench.Pauses) == 0 {
		return 0
	}
	return slices.Max(o.Bench.Pauses)
}

// total returns the sums over all nodes of their sizes: before, predicted, after the base backup, and now.
func (o *outcome) total() (was, predicted, backup, now int64) {
	for _, p := range o.State.Nodes {
		was, predicted, backup, now = was+p.Old.Data, predicted+p.Predicted.Bytes, backup+p.Backup.Data, now+p.Now.Data
	}
	return was, predicted, backup, now
}

func ms(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond)) }

// change formats the relative change of a size.
func change(now, was int64) string { return fmt.Sprintf("%+.1f %%", 100*(ratio(now, was)-1)) }

// print prints the results for a terminal.
func (o *outcome) print(out io.Writer) error {
	fmt.Fprintln(out)
	if err := o.State.Text(out); err != nil {
		return err
	}
	was, predicted, backup, now := o.total()
	fmt.Fprintf(out, `
Storage:      %s without WAL on ext4; predicted %s; %s just after the base backups (%s of the prediction); %s now.
              That is %s just after the move, and %s after the clients' later changes.
Pause:        clients were held for %s at most; the longest transaction of pgbench while the primary changed took %s.
pgbench:      %d transactions of %d clients, %d failed; %d stored.
Bank:         %d transfers of %d clients: %d lost, %d applied twice, %d that no client made; %d of %d accounts wrong.
Reconnects:   %d.
`, terminal.Size(was), terminal.Size(predicted), terminal.Size(backup), change(backup, predicted), terminal.Size(now), change(backup, was), change(now, was), ms(o.pause()), ms(o.worst()),
		o.Bench.Committed, o.Bench.Clients, o.Bench.Failed, o.Bench.There,
		o.Bank.Committed, len(o.Tellers), o.Bank.Lost, o.Bank.Twice, o.Bank.Strange, o.Bank.Wrong, accounts, o.reconnects())
	if len(o.Unequal) > 0 {
		fmt.Fprintf(out, "Nodes:        they differ in %v.\n", o.Unequal)
	} else {
		fmt.Fprintf(out, "Nodes:        the three hold equal data in all %d tables.\n", len(checksums))
	}
	fmt.Fprintf(out, "The page is %s.\n", o.page)
	return nil
}

// write writes the page to a file.
func (o *outcome) write(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(o.html(f), f.Close())
}
