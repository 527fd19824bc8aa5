package main

import (
	"fmt"
	"strconv"

	"github.com/cinch-layer/cinch/test/rig"
)

// result is the output of --json.
type result struct {
	Command string    `json:"command"`
	Machine string    `json:"machine"`
	Load    [2]string `json:"load"` // average of a minute, before and after
	Rounds  int       `json:"rounds"`
	Turn    int       `json:"turn"` // number of SETs, and of GETs, in each round
	Data    []*data   `json:"data"`
	Rows    []row     `json:"rows"`
	Latency *latency  `json:"latency"`
}

// row is the result of a way for a kind of records.
type row struct {
	Data    string  `json:"data"`
	Way     string  `json:"way"`
	Set     costs   `json:"set"`
	Get     costs   `json:"get"`
	Stored  holding `json:"stored"`
	WireSet float64 `json:"wire_set"` // bytes that the server received per SET
	WireGet float64 `json:"wire_get"` // bytes that it sent per GET
	Once    int64   `json:"once"`     // bytes of dictionary and policy, for any number of values
}

// costs holds CPU time per operation in microseconds. Each is a separate median.
type costs struct {
	Client  float64      `json:"client"`
	Gateway float64      `json:"gateway"`
	Server  float64      `json:"server"`
	Sum     float64      `json:"sum"`
	More    rig.Estimate `json:"more"` // than Sum of the same client without compression
}

// latency holds the latencies of GETs of values of about 10 KB.
type latency struct {
	Crowd   rig.Crowd    `json:"crowd"`
	Records int          `json:"records"`
	Bytes   int          `json:"bytes"` // their total size
	Ways    []latencyWay `json:"ways"`
}

type latencyWay struct {
	Way  string  `json:"way"`
	Gets int     `json:"gets"`
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
}

// write replaces the tables of the page.
func (r *result) write(path string) error {
	for _, part := range []struct{ name, text string }{
		{"run", r.runTable()}, {"cpu", r.cpuTable()}, {"bytes", r.bytesTable()}, {"latency", r.Latency.table()},
	} {
		if err := rig.ReplacePart(path, part.name, part.text); err != nil {
			return err
		}
	}
	return nil
}

func (r *result) runTable() string {
	var b rig.Table
	b.Row("records", "what", "the dictionary learned from", "measured", "bytes a record", "dictionary, bytes")
	b.Rule(6)
	for _, d := range r.Data {
		b.Row(d.Name, d.About, fmt.Sprintf("%d of %d sources", d.Learned, d.Sources[0]), fmt.Sprintf("%d of %d sources", d.Records, d.Sources[1]),
			strconv.Itoa(d.Bytes/d.Records), strconv.Itoa(d.Dictionary.Bytes))
	}
	return fmt.Sprintf("```\n%s\n```\n\n%s. %d rounds of %d SETs and %d GETs by each way; load average %s before and %s after, of which this is a part.\n\n",
		r.Command, r.Machine, r.Rounds, r.Turn, r.Turn, r.Load[0], r.Load[1]) + b.String()
}

func (r *result) cpuTable() string {
	var b rig.Table
	b.Row("records", "way", "SET: client", "gateway", "server", "sum", "beyond the plain client", "GET: client", "gateway", "server", "sum", "beyond the plain client")
	b.Rule(12)
	for _, w := range r.Rows {
		b.Row(append(append([]string{w.Data, w.Way}, w.Set.cells()...), w.Get.cells()...)...)
	}
	return b.String()
}

func (c *costs) cells() []string {
	more, gateway := c.More.String(), oneDigit(c.Gateway)
	if c.More == (rig.Estimate{}) {
		more = ""
	}
	if c.Gateway == 0 {
		gateway = ""
	}
	return []string{oneDigit(c.Client), gateway, oneDigit(c.Server), "**" + oneDigit(c.Sum) + "**", more}
}

func oneDigit(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

func (r *result) bytesTable() string {
	var b rig.Table
	b.Row("records", "way", "value as stored, B", "key with value, B (MEMORY USAGE)", "to go-redis", "used_memory, B a record", "dictionary and policy, once, KB", "SET on the wire, B", "GET on the wire, B")
	b.Rule(9)
	plain := map[string]int64{}
	for _, w := range r.Rows {
		if w.Way == plainGo {
			plain[w.Data] = w.Stored.Keys
		}
	}
	for _, w := range r.Rows {
		n := int64(r.records(w.Data))
		each := func(bytes int64) string { return strconv.FormatInt(bytes/n, 10) }
		b.Row(w.Data, w.Way, each(w.Stored.Lengths), each(w.Stored.Keys), fmt.Sprintf("%.2fx", float64(plain[w.Data])/float64(w.Stored.Keys)),
			each(w.Stored.Used), once(w.Once), fmt.Sprintf("%.0f", w.WireSet), fmt.Sprintf("%.0f", w.WireGet))
	}
	return b.String()
}

func once(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return strconv.FormatInt(bytes>>10, 10)
}

func (r *result) records(name string) int {
	for _, d := range r.Data {
		if d.Name == name {
			return d.Records
		}
	}
	return 1
}

func (l *latency) table() string {
	var b rig.Table
	b.Row("way", "GETs", "p50, µs", "p99, µs")
	b.Rule(4)
	for _, w := range l.Ways {
		b.Row(w.Way, strconv.Itoa(w.Gets), fmt.Sprintf("%.0f", w.P50), fmt.Sprintf("%.0f", w.P99))
	}
	return fmt.Sprintf("%d records of %d to %d KiB, %d bytes on average; %s.\n\n", l.Records, leastLarge>>10, mostLarge>>10, l.Bytes/l.Records, l.Crowd) + b.String()
}
