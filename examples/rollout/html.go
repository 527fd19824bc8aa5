package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/rollout"
)

// html writes the report as a self-contained page.
func (o *outcome) html(w io.Writer) error {
	was, predicted, backup, now := o.total()
	p := &page.Page{
		Title: "cinch rollout, " + o.Began.Format("2006-01-02 15:04"), Subject: "A PostgreSQL cell moved from ext4 to btrfs with " + o.Mount,
		Lead: fmt.Sprintf("A primary and two standbys moved while %d clients of pgbench and %d of a bank worked. %s", o.Bench.Clients, len(o.Tellers), o.verdict()),
		Tiles: []page.Tile{
			{Name: "Storage", Value: change(backup, was), Note: terminal.Size(was) + " to " + terminal.Size(backup) + ", without WAL"},
			{Name: "Prediction", Value: change(backup, predicted), Note: "size of the base backups relative to the prediction"},
			{Name: "Longest pause", Value: ms(o.pause()), Note: "longest time that the gateway held a client"},
			{Name: "Transactions", Value: fmt.Sprint(o.Bench.Committed + o.Bank.Committed), Note: fmt.Sprintf("%d lost, %d twice", o.lost(), o.twice())},
			{Name: "Reconnects", Value: fmt.Sprint(o.reconnects()), Note: fmt.Sprintf("of %d clients", o.Bench.Clients+len(o.Tellers))},
			{Name: "Since the move", Value: change(now, backup), Note: "random updates break compressed extents up"},
		},
	}
	p.Sections = []page.Section{o.sizes(), o.growth(), o.pauses(), o.data(), o.steps()}
	p.Footer = "Created by examples/rollout. Sizes are without WAL, by compsize on btrfs and du on ext4. Everything ran on one machine."
	return page.Write(w, p)
}

func (o *outcome) verdict() string {
	if err := o.wrong(); err != nil {
		return "Failed: " + err.Error() + "."
	}
	return "No commit is lost or applied twice, and no client had to reconnect."
}

// lost returns the number of committed transactions that are missing. pgbench's have no numbers, so it
// compares their counts.
func (o *outcome) lost() int { return o.Bank.Lost + max(0, o.Bench.Committed-o.Bench.There) }

func (o *outcome) twice() int {
	return o.Bank.Twice + max(0, o.Bench.There-o.Bench.Committed)
}

func (o *outcome) sizes() page.Section {
	s := page.Section{
		Title: "What the nodes take", Bars: &page.Bars{},
		Legend: []page.Key{{Class: "now", Name: "ext4, before"}, {Class: "cpu", Name: "predicted"}, {Class: "after", Name: "btrfs, just after the base backup"}, {Class: "traffic", Name: "btrfs, at the end"}},
		Table:  &page.Table{Header: []page.Column{{Name: "Node"}, {Name: "Before"}, {Name: "Predicted"}, {Name: "After the base backup"}, {Name: "At the end"}}},
	}
	var walBefore, wal int64
	for _, name := range o.State.Order {
		p := o.State.Nodes[name]
		row := page.BarRow{Name: name + " to " + name + "2"}
		for _, b := range []struct {
			class string
			bytes int64
		}{{"now", p.Old.Data}, {"cpu", p.Predicted.Bytes}, {"after", p.Backup.Data}, {"traffic", p.Now.Data}} {
			row.Bars = append(row.Bars, page.Bar{Label: terminal.Size(b.bytes), Parts: []page.Part{{Class: b.class, Value: float64(b.bytes), Tip: terminal.Size(b.bytes)}}})
		}
		s.Bars.Rows = append(s.Bars.Rows, row)
		s.Table.Rows = append(s.Table.Rows, page.Row{Cells: []string{
			row.Name, terminal.Size(p.Old.Data), terminal.Size(p.Predicted.Bytes), terminal.Size(p.Backup.Data) + " (" + change(p.Backup.Data, p.Predicted.Bytes) + ")",
			terminal.Size(p.Now.Data) + " (" + change(p.Now.Data, p.Backup.Data) + ")",
		}})
		walBefore, wal = walBefore+p.Old.WAL, wal+p.Now.WAL
	}
	s.List = []string{"WAL is not included: " + terminal.Size(walBefore) + " before, " + terminal.Size(wal) + " at the end."}
	return s
}

// growth charts the size of the new primary while clients continue.
func (o *outcome) growth() page.Section {
	s := page.Section{
		Title:  "Growth after the move",
		Words:  []string{"A page of 8 KiB that is rewritten goes to a new place, and its old compressed extent of up to 128 KiB remains until no part of it is in use. So btrfs grows faster than the database; ZFS does not."},
		Legend: []page.Key{{Class: "now", Name: "size of the databases, as the server reports it"}, {Class: "after", Name: "on disk, compressed"}},
	}
	disk := page.Series{Class: "after"}
	database := page.Series{Class: "now"}
	for _, l := range o.Looks {
		x := l.After.Seconds()
		disk.Points = append(disk.Points, page.At{X: x, Y: mib(l.Disk[0]), Tip: terminal.Size(l.Disk[0])})
		database.Points = append(database.Points, page.At{X: x, Y: mib(l.Database), Tip: terminal.Size(l.Database)})
	}
	s.Lines = []page.Lines{
		{Title: "On disk, MiB", Across: "seconds after the move", Up: "MiB", Series: []page.Series{disk}},
		{Title: "Databases, MiB", Across: "seconds after the move", Up: "MiB", Series: []page.Series{database}},
	}
	return s
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func (o *outcome) pauses() page.Section {
	primary := o.State.Nodes[o.State.Order[len(o.State.Order)-1]]
	return page.Section{
		Title: "The pause",
		Words: []string{fmt.Sprintf("The time from hold to release was %s; the gateway held a client for %s at most. The longest pgbench transaction in that time took %s, counted from its scheduled start.", ms(primary.Pause), ms(o.pause()), ms(o.worst()))},
		Columns: []page.Columns{
			{Title: "The longest transaction of each client while the primary changed", Note: "up to, ms", Bins: even(o.Bench.Pauses)},
			{Title: "All transactions of pgbench", Note: "up to, ms", Bins: doubling(o.Bench.Latencies)},
		},
	}
}

// bins is the number of bins of a histogram with equal bin widths.
const bins = 12

func even(list []time.Duration) []page.Bin {
	if len(list) == 0 {
		return nil
	}
	most := float64(list[len(list)-1]) / float64(time.Millisecond)
	width := math.Pow(10, math.Floor(math.Log10(max(most/bins, 1))))
	for width*bins < most {
		width *= 2
	}
	all := make([]page.Bin, int(most/width)+1)
	for i := range all {
		all[i].Name = fmt.Sprintf("%.0f", width*float64(i+1))
	}
	for _, d := range list {
		all[int(float64(d)/float64(time.Millisecond)/width)].Value++
	}
	return all
}

// doubling returns bins of doubling width, from 1 ms on.
func doubling(list []time.Duration) (all []page.Bin) {
	limit := time.Millisecond
	for i := 0; i < len(list); limit *= 2 {
		b := page.Bin{Name: fmt.Sprint(limit.Milliseconds())}
		for ; i < len(list) && list[i] <= limit; i++ {
			b.Value++
		}
		all = append(all, b)
	}
	return all
}

func (o *outcome) data() page.Section {
	count := func(n int) string { return fmt.Sprint(n) }
	equal := "equal in all tables"
	if len(o.Unequal) > 0 {
		equal = fmt.Sprint("differ: ", o.Unequal)
	}
	return page.Section{
		Title: "Data after the move",
		Table: &page.Table{
			Header: []page.Column{{Name: "What"}, {Name: "pgbench"}, {Name: "Bank"}},
			Rows: []page.Row{
				{Cells: []string{"Clients", count(o.Bench.Clients), count(len(o.Tellers))}},
				{Cells: []string{"Committed, as reported to clients", count(o.Bench.Committed), count(o.Bank.Committed)}},
				{Cells: []string{"Lost", count(max(0, o.Bench.Committed-o.Bench.There)), count(o.Bank.Lost)}},
				{Cells: []string{"Applied twice", count(max(0, o.Bench.There-o.Bench.Committed)), count(o.Bank.Twice)}},
				{Cells: []string{"Failed", count(o.Bench.Failed), "0"}},
				{Cells: []string{"Wrong sums and balances", count(o.Bench.Unbalanced), count(o.Bank.Wrong)}},
				{Cells: []string{"New connections", "0", count(o.reconnects())}},
			},
		},
		List: []string{"Contents of the three new nodes: " + equal + "."},
	}
}

// steps tabulates the roll-out's steps and their durations for each node.
func (o *outcome) steps() page.Section {
	t := &page.Table{Header: []page.Column{{Name: "Step"}}}
	column := map[string]int{}
	for i, name := range o.State.Order {
		t.Header = append(t.Header, page.Column{Name: name + " to " + name + "2"})
		column[name] = i + 1
	}
	for _, name := range inOrder {
		cells := make([]string, len(t.Header))
		cells[0] = string(name)
		for _, s := range o.taken() {
			if s.name == cells[0] {
				cells[column[s.node]] = fmt.Sprintf("%.2f s", s.took.Seconds())
			}
		}
		t.Rows = append(t.Rows, page.Row{Cells: cells})
	}
	return page.Section{Title: "The steps", Words: []string{"For standbys: join the new one, retire the old one. For the primary: hold clients, and move them. Clients wait between hold and move."}, Table: t}
}

// inOrder lists the steps of standbys and of the primary.
var inOrder = []rollout.Step{
	rollout.StepCheck, rollout.StepProvision, rollout.StepBackup, rollout.StepStart, rollout.StepCatchUp, rollout.StepGates, rollout.StepJoin, rollout.StepRetire,
	rollout.StepHold, rollout.StepFence, rollout.StepPromote, rollout.StepMove, rollout.StepFollow, rollout.StepKeep, rollout.StepDestroy,
}

// step is a step that was executed for a node.
type step struct {
	node, name string
	took       time.Duration
}

// taken returns all steps in order. An action lasts until the next one begins.
func (o *outcome) taken() (list []step) {
	var since time.Time
	for _, a := range o.State.Actions {
		if a.Text == "confirmed by --yes" || a.Text == "the roll-out begins" {
			continue
		}
		if len(list) > 0 {
			list[len(list)-1].took = a.At.Sub(since)
		}
		list, since = append(list, step{node: a.Node, name: a.Text}), a.At
	}
	return list[:max(len(list)-1, 0)] // the last action only reports the end
}
