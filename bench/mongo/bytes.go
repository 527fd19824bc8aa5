package main

import (
	"fmt"

	"github.com/cinch-layer/cinch/test/rig"
)

// traffic holds bytes per operation, up and down, by way and operation.
type traffic map[string]map[string][2]float64

// bytes measures the bytes of operations on the link.
func (b *bench) bytes() error {
	s, err := b.setUp(0, 0, byteWays)
	if err != nil {
		return err
	}
	defer s.stop()
	n := 100
	if *short {
		n = 20
	}
	all := traffic{}
	var rows [][]string
	for _, r := range s.routes {
		all[r.name] = map[string][2]float64{}
		for _, op := range b.operations(r.client, &r.unread) {
			if err := op.repeat(10); err != nil { // so that the gateway has seen typical replies
				return err
			}
			up, down, err := s.bytes(op, n)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", r.name, op.name, err)
			}
			all[r.name][op.name] = [2]float64{up, down}
			rows = append(rows, []string{"bytes", r.name, op.name, fmt.Sprintf("%.0f", up), fmt.Sprintf("%.0f", down)})
		}
	}
	if err := record("mongo.csv", "bytes", []string{"part", "way", "operation", "bytes_up", "bytes_down"}, rows); err != nil {
		return err
	}
	return publish("bytes", all.table())
}

func (a traffic) table() string {
	var t rig.Table
	fmt.Fprintf(&t, "Replies of 100 documents of %d bytes, as in the published table (34K, 15.3K, 8.9K, 9.5K):\n\n", size)
	t.Row("", "none", "snappy", "zstd", "zlib", "pair")
	t.Rule(6)
	down := func(way, op string) string { return thousands(a[way][op][1]) }
	t.Row("driver", down("plain", "find 100"), down("driver snappy", "find 100"), down("driver zstd", "find 100"), down("driver zlib", "find 100"), "")
	t.Row("gateway", down("gateway off", "find 100"), down("gateway snappy", "find 100"), down("gateway zstd", "find 100"), down("gateway zlib", "find 100"), down("pair", "find 100"))
	t.WriteString("\nBytes on the link an operation, requests and replies:\n\n")
	a.operations(&t)
	t.WriteString("\nTimes smaller than plain, the message that carries the documents:\n\n")
	a.ratios(&t)
	t.WriteString("\nA mix in which replies of 100 documents are 90 % of the plain bytes, inserts of one document and their acknowledgements 10 %, takes this share of them:\n\n")
	a.mix(&t)
	return t.String()
}

func (a traffic) operations(t *rig.Table) {
	head := []string{"operation"}
	for _, w := range byteWays {
		head = append(head, w.name)
	}
	t.Row(head...)
	t.Rule(len(head))
	for _, op := range operationNames {
		cells := []string{op}
		for _, w := range byteWays {
			x := a[w.name][op]
			cells = append(cells, thousands(x[0]+x[1]))
		}
		t.Row(cells...)
	}
}

// carriers lists the messages that carry documents. direction is 0 for the request and 1 for the reply.
var carriers = []struct {
	name, operation string
	direction       int
}{
	{"reply, 100 documents", "find 100", 1},
	{"reply, 10 documents", "find 10", 1},
	{"reply, 1 document", "find 1", 1},
	{"insert, 100 documents", "insert 100", 0},
	{"insert, 1 document", "insert 1", 0},
}

func (a traffic) ratios(t *rig.Table) {
	ways := []string{"driver zstd", "gateway zstd", "pair"}
	t.Row(append([]string{"message"}, ways...)...)
	t.Rule(len(ways) + 1)
	for _, c := range carriers {
		cells := []string{c.name}
		for _, w := range ways {
			cells = append(cells, fmt.Sprintf("%.2f", a["plain"][c.operation][c.direction]/a[w][c.operation][c.direction]))
		}
		t.Row(cells...)
	}
}

func (a traffic) mix(t *rig.Table) {
	var names, shares []string
	plain := a["plain"]
	for _, w := range byteWays {
		x := a[w.name]
		replies := x["find 100"][1] / plain["find 100"][1]
		inserts := (x["insert 1"][0] + x["insert 1"][1]) / (plain["insert 1"][0] + plain["insert 1"][1])
		names = append(names, w.name)
		shares = append(shares, fmt.Sprintf("%.3f", 0.9*replies+0.1*inserts))
	}
	t.Row(names...)
	t.Rule(len(names))
	t.Row(shares...)
}
