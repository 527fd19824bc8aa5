package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/link"
)

// Measures a SET of a large value from its first byte: a value that is compressed while it arrives needs
// little work after its last byte. The client is on the gateway's machine, or behind a link of 1 Gbit/s.
var arrivalSizes = []int{1 << 20, 16 << 20, 64 << 20}

const (
	arrivalTurns     = 3 // values of a way in a run
	arrivalRoundTrip = 200 * time.Microsecond
	arrivalMbit      = 1000
)

// hugeTop and hugeMost let a gateway compress values of 64 MB.
const (
	hugeTop  = "log: {level: warn}\nmemory: {budget: 1GiB}"
	hugeMost = "max_seal: 64MiB\n    "
)

// huge runs cinch, the current or an earlier build, with one rule; setting "" means no rule.
func huge(cinch func(*options) string, setting string) func(*options, *rig.Process) (*rig.Process, error) {
	settings := "enabled: false"
	if setting != "" {
		settings = "rules: [{key: '*', setting: " + setting + "}]"
	}
	return func(o *options, s *rig.Process) (*rig.Process, error) {
		return rig.Gateway(cinch(o), o.work, s, hugeTop, hugeMost+settings)
	}
}

func (o *options) arrivalWays() []way {
	now := func(o *options) string { return o.cinch }
	ways := []way{{name: "direct"}, {name: "rules off", start: huge(now, "")}}
	if o.before != "" {
		ways = append(ways, way{name: beforeWays[1].name, start: huge(func(o *options) string { return o.before }, "zstd-3")})
	}
	return append(ways, way{name: "zstd-3", start: huge(now, "zstd-3")}, way{name: "lz4", start: huge(now, "lz4")})
}

func (o *options) measureArrival() error {
	var lanes []lane
	var ends []string
	for _, w := range o.arrivalWays() {
		l, err := o.startLane(w)
		if err != nil {
			return err
		}
		defer l.stop()
		lanes = append(lanes, l)
		ends = append(ends, "127.0.0.1:0="+l.target().Addr)
	}
	far, err := link.Start(arrivalRoundTrip, arrivalMbit, ends...)
	if err != nil {
		return err
	}
	defer far.Stop()
	var t rig.Table
	t.Row("bytes", "way", "SET, client on the same machine, ms", "SET, client behind 1 Gbit/s, ms", "hop CPU ms a SET")
	t.Rule(5)
	for _, size := range arrivalSizes {
		set := resp.AppendArgs(nil, [][]byte{[]byte("SET"), []byte("large"), largeValue(size)})
		near, behind, cpu := make([][]time.Duration, len(lanes)), make([][]time.Duration, len(lanes)), make([]float64, len(lanes))
		for range o.runs {
			for i := range lanes {
				if lanes[i].refuses(size) {
					continue
				}
				before, err := cpuMicros(lanes[i].hop)
				if err == nil {
					err = timeSets(lanes[i].target().Addr, set, &near[i])
				}
				if err == nil {
					err = timeSets(far.Addrs[i], set, &behind[i])
				}
				if err != nil {
					return fmt.Errorf("%s, %d bytes: %w", lanes[i].name, size, err)
				}
				after, err := cpuMicros(lanes[i].hop)
				if err != nil {
					return err
				}
				cpu[i] += (after - before) / 1e3 / float64(2*arrivalTurns*o.runs)
			}
		}
		for i, l := range lanes {
			if l.refuses(size) {
				continue
			}
			t.Row(strconv.Itoa(size), l.name, millis(quantile(near[i], 50)), millis(quantile(behind[i], 50)), fmt.Sprintf("%.1f", cpu[i]))
		}
	}
	return o.report("arrival", t.String())
}

// refuses reports whether the lane answers a value of this size with an error: earlier builds do with a rule,
// above 32 MiB.
func (l *lane) refuses(size int) bool { return l.name == beforeWays[1].name && size > 32<<20 }

// target returns the process that the lane's clients connect to.
func (l *lane) target() *rig.Process {
	if l.hop != nil {
		return l.hop
	}
	return l.server
}

// timeSets times SETs from the first byte to the answer, one after the other.
func timeSets(addr string, set []byte, times *[]time.Duration) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	var answer [len("+OK\r\n")]byte
	for range arrivalTurns {
		start := time.Now()
		if _, err := c.Write(set); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, answer[:]); err != nil || answer[0] != '+' {
			return fmt.Errorf("SET returned %q, %v", answer, err)
		}
		*times = append(*times, time.Since(start))
	}
	return nil
}
