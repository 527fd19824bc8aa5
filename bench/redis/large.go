package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/menus"
)

// The delay that a hop adds to a large value is the time between the last byte in and the first byte out: a
// compressed value must have arrived completely, and what is written begins with its length.
var largeSizes = []int{1 << 20, 16 << 20}

const (
	largeTurns = 5                     // values of a way in a run
	largePause = 60 * time.Millisecond // between the value and its last byte, so that all else has arrived
)

var largeWays = []way{
	{name: "direct"},
	{name: "io.Copy", start: (*options).startForward},
	{name: "rules off", start: rulesOff},
	{name: "lz4", start: sealingWith("lz4")},
	{name: "zstd-3", start: sealingWith("zstd-3")},
}

// largeTimes holds durations: of a SET from its last byte to the answer, and of a GET to the first and to the
// last byte of the value.
type largeTimes struct{ set, first, last []time.Duration }

func (o *options) measureLarge() error {
	var t rig.Table
	t.Row("bytes", "way", "SET: last byte in to answer, ms", "GET: to first byte, ms", "GET: to last byte, ms")
	t.Rule(5)
	var lanes []lane
	ways := largeWays
	if o.before != "" {
		ways = append(ways[:len(ways):len(ways)], beforeWays[1])
	}
	for _, w := range ways {
		l, err := o.startLane(w)
		if err != nil {
			return err
		}
		defer l.stop()
		lanes = append(lanes, l)
	}
	for _, size := range largeSizes {
		value := largeValue(size)
		times := make([]largeTimes, len(lanes))
		for range o.runs {
			for i := range lanes {
				if err := lanes[i].large(value, &times[i]); err != nil {
					return fmt.Errorf("%s, %d bytes: %w", lanes[i].name, size, err)
				}
			}
		}
		for i, l := range lanes {
			t.Row(strconv.Itoa(size), l.name, millis(quantile(times[i].set, 50)), millis(quantile(times[i].first, 50)), millis(quantile(times[i].last, 50)))
		}
	}
	if err := o.report("large", t.String()); err != nil {
		return err
	}
	return o.measureArrival()
}

// largeValue concatenates menus to size bytes.
func largeValue(size int) []byte {
	var b []byte
	for i := 0; len(b) < size; i++ {
		b = append(b, menus.Menu(trainFrom+i)...)
	}
	return b[:size]
}

func (l *lane) large(value []byte, t *largeTimes) error {
	c, err := net.Dial("tcp", l.target().Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	set := resp.AppendArgs(nil, [][]byte{[]byte("SET"), []byte("large"), value})
	get := resp.AppendCommand(nil, "GET", "large")
	want := resp.AppendBulk(nil, value)
	got := make([]byte, len(want))
	for range largeTurns {
		if _, err := c.Write(set[:len(set)-1]); err != nil {
			return err
		}
		time.Sleep(largePause)
		start := time.Now()
		if _, err := c.Write(set[len(set)-1:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, got[:len("+OK\r\n")]); err != nil || got[0] != '+' {
			return fmt.Errorf("SET returned %q, %v", got[:5], err)
		}
		t.set = append(t.set, time.Since(start))
		start = time.Now()
		if _, err := c.Write(get); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, got[:1]); err != nil {
			return err
		}
		t.first = append(t.first, time.Since(start))
		if _, err := io.ReadFull(c, got[1:]); err != nil {
			return err
		}
		t.last = append(t.last, time.Since(start))
		if !bytes.Equal(got, want) {
			return fmt.Errorf("GET returned a different value")
		}
	}
	return nil
}
