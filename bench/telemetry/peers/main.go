// Command peers measures how other codecs of telemetry encode OTLP, for bench/telemetry. Its input is a line
// with the kind of the messages (metrics, traces or logs) and the number of rounds, then the messages, each
// after its length in four bytes, big-endian. It prints a line for each way: name, bytes, CPU time of
// encoding and decoding in nanoseconds (the median), and how many points, spans or records came back; or an
// error in their place.
//
// Ways convert OTLP bytes to the codec's bytes, message by message in one stream, and back to OTLP bytes. CPU
// time is the process's, garbage collection included, on one core. It is a module of its own, outside of the
// workspace, so that its dependencies don't have to agree with Cinch's.
//
//	main.go   the measurements
//	stef.go   STEF
//	otap.go   OTel-Arrow
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.GOMAXPROCS(1)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// way is a codec for one kind of messages. there gets each message in turn and returns its bytes on the wire.
// back gets all of these, and returns the number of units that came back.
type way struct {
	name string
	make func() (there func(message []byte) ([]byte, error), back func(pieces [][]byte) (int, error), err error)
}

var ways = map[string][]way{
	"metrics": append(stefMetrics, otapMetrics...),
	"traces":  append(stefTraces, otapTraces...),
	"logs":    otapLogs,
}

func run(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	var kind string
	var rounds int
	if _, err := fmt.Fscanf(r, "%s %d\n", &kind, &rounds); err != nil {
		return err
	}
	messages, err := readAll(r)
	if err != nil {
		return err
	}
	if len(ways[kind]) == 0 || rounds < 1 {
		return fmt.Errorf("kind %q, %d rounds", kind, rounds)
	}
	for _, w := range ways[kind] {
		m, err := w.median(messages, rounds)
		if err != nil {
			fmt.Fprintf(out, "%s\terror\t%v\n", w.name, err)
			continue
		}
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\n", w.name, m.bytes, m.there.Nanoseconds(), m.back.Nanoseconds(), m.came)
	}
	return nil
}

func readAll(r io.Reader) (all [][]byte, err error) {
	for {
		var n uint32
		if err := binary.Read(r, binary.BigEndian, &n); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		m := make([]byte, n)
		if _, err := io.ReadFull(r, m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
}

// measured holds the results of one run.
type measured struct {
	bytes, came int
	there, back time.Duration
}

func (w way) median(messages [][]byte, rounds int) (m measured, err error) {
	var there, back []time.Duration
	for range rounds {
		if m, err = w.measure(messages); err != nil {
			return m, err
		}
		there, back = append(there, m.there), append(back, m.back)
	}
	slices.Sort(there)
	slices.Sort(back)
	m.there, m.back = there[len(there)/2], back[len(back)/2]
	return m, nil
}

func (w way) measure(messages [][]byte) (m measured, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	debug.FreeOSMemory()
	began := processTime()
	there, back, err := w.make()
	if err != nil {
		return m, err
	}
	var pieces [][]byte
	for _, message := range messages {
		piece, err := there(message)
		if err != nil {
			return m, err
		}
		pieces, m.bytes = append(pieces, piece), m.bytes+len(piece)
	}
	m.there = processTime() - began
	debug.FreeOSMemory()
	began = processTime()
	m.came, err = back(pieces)
	m.back = processTime() - began
	return m, err
}

func processTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
