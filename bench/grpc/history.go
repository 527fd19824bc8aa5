package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/bench/grpc/otlp"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

// Compresses messages with the history of earlier ones, as a link between two gateways does, but without the
// network: whole messages and columns, beside compression of each message alone.

const (
	pieceBytes  = 64 << 10 // of a stream, each flushed
	frameHeader = 9        // approximate: of a piece, and HTTP/2's frame header in front of it
	messageHead = 5
)

// way converts messages to bytes and back, all of them once, in order.
type way struct {
	name   string
	column string // the column encoding of the stream's input; "": messages whole
	level  int    // of the stream; 0: none
	window int
	alone  string // the encoding of each message by itself, where there is no stream
}

func ways() []way {
	all := []way{{name: "by message, s2", alone: "s2"}, {name: "by message, zstd-3", alone: "zstd-3"}, {name: "by message, cinch-proto", alone: "cinch-proto"}}
	for _, level := range []int{1, 3, 6} {
		all = append(all, way{name: fmt.Sprintf("whole, history, zstd-%d", level), level: level, window: codec.MaxStreamWindow})
	}
	for _, level := range []int{1, 3, 6} {
		all = append(all, way{name: fmt.Sprintf("columns, history, zstd-%d", level), column: "cinch-proto-raw", level: level, window: codec.MaxStreamWindow})
	}
	return append(all, way{name: "columns, history of 1 MiB, zstd-3", column: "cinch-proto-raw", level: 3, window: 20})
}

type historyRig struct {
	set    *grpccodec.Set
	engine *codec.Engine
}

func measureHistory(ctx context.Context, o options, c *remotewrite.Corpus) error {
	runtime.LockOSThread() // only the CPU time of this thread counts
	now = threadTime
	recorded, err := otlp.Record(ctx, visits)
	if err != nil {
		return err
	}
	z, ok := libzstd.New()
	if !ok {
		return fmt.Errorf("libzstd is needed, as in gateways: build with cgo")
	}
	r := historyRig{grpccodec.NewSet(grpccodec.Options{Zstd: z}), codec.New(codec.Options{Zstd: z})}
	var t rig.Table
	fmt.Fprintf(&t, "%s, %d cores, %s.\n\n", cpuModel(), runtime.NumCPU(), runtime.Version())
	t.Row("payload", "messages", "bytes each", "way", "bytes", "times smaller", "beside S2 by message", "CPU of both ends beside S2's")
	t.Rule(8)
	rows := [][]string{{"payload", "way", "raw_bytes", "bytes"}}
	for _, p := range []payload{
		{"A2000", "", c.Scraped(2000, 40)},
		{"A2000, four scrapes", "", c.Rescraped(2000, 40, 4)},
		{"B2000", "", c.Shuffled(2000, 40)},
		{"A50", "", c.Scraped(50, 1000)},
		{"A50, four scrapes", "", c.Rescraped(50, 1000, 4)},
		{"B50", "", c.Shuffled(50, 1000)},
		{"traces", "", recorded.Traces},
		{"metrics", "", recorded.Metrics},
		{"logs", "", recorded.Logs},
	} {
		if err := r.measure(ctx, &t, &rows, p); err != nil {
			return err
		}
	}
	fmt.Print(t.String())
	if o.results == "" {
		return nil
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "history.csv"), rows); err != nil {
		return err
	}
	return rig.ReplacePart(filepath.Join(o.results, "tunnel.md"), "history", t.String())
}

// measure runs all ways in turn, three times, and takes the median of the times.
func (r historyRig) measure(ctx context.Context, t *rig.Table, rows *[][]string, p payload) error {
	const rounds = 3
	all := ways()
	sizes, took := make([]int, len(all)), make([][]float64, len(all))
	for range rounds {
		for i, w := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, cpu, err := r.run(w, p.messages)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.name, w.name, err)
			}
			sizes[i], took[i] = n, append(took[i], cpu.Seconds())
		}
	}
	raw := p.bytes()
	median := func(i int) float64 { slices.Sort(took[i]); return took[i][rounds/2] }
	for i, w := range all {
		t.Row(p.name, strconv.Itoa(len(p.messages)), strconv.Itoa(raw/len(p.messages)), w.name, strconv.Itoa(sizes[i]), fmt.Sprintf("%.2f", float64(raw)/float64(sizes[i])),
			fmt.Sprintf("%+.1f %%", 100*(float64(sizes[i])/float64(sizes[0])-1)), fmt.Sprintf("%.1f", median(i)/median(0)))
		*rows = append(*rows, []string{p.name, w.name, strconv.Itoa(raw), strconv.Itoa(sizes[i])})
	}
	fmt.Fprintln(os.Stderr, p.name)
	return nil
}

// run compresses all messages one way and decompresses them.
func (r historyRig) run(w way, all [][]byte) (bytes int, cpu time.Duration, err error) {
	began := now()
	if w.level == 0 {
		bytes, err = r.eachAlone(w, all)
	} else {
		bytes, err = r.stream(w, all)
	}
	return bytes, now() - began, err
}

func (r historyRig) eachAlone(w way, all [][]byte) (sum int, err error) {
	var packed, back []byte
	for _, m := range all {
		if packed, err = r.set.AppendCompress(packed[:0], m, w.alone); err != nil {
			return 0, err
		}
		if back, err = r.set.AppendDecompress(back[:0], packed, w.alone, len(m)); err != nil {
			return 0, err
		}
		if !bytes.Equal(back, m) {
			return 0, errNotSame
		}
		sum += len(packed) + messageHead
	}
	return sum, nil
}

var errNotSame = fmt.Errorf("decompressing returned a different message")

func (r historyRig) stream(w way, all [][]byte) (sum int, err error) {
	to, err := r.engine.StreamWriter(w.level, w.window)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	from, err := r.engine.StreamReader(w.window)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	var columns, piece, arrived, back []byte
	for _, m := range all {
		columns = append(columns[:0], m...)
		if w.column != "" {
			if columns, err = r.set.AppendCompress(columns[:0], m, w.column); err != nil {
				return 0, err
			}
		}
		arrived = arrived[:0]
		for part := range slices.Chunk(columns, pieceBytes) {
			if piece, err = to.Append(piece[:0], part); err != nil {
				return 0, err
			}
			if arrived, err = from.Append(arrived, piece, len(part)); err != nil {
				return 0, err
			}
			sum += len(piece) + frameHeader
		}
		back = append(back[:0], arrived...)
		if w.column != "" {
			if back, err = r.set.AppendDecompress(back[:0], arrived, w.column, len(m)); err != nil {
				return 0, err
			}
		}
		if !bytes.Equal(back, m) {
			return 0, errNotSame
		}
		sum += messageHead
	}
	return sum, nil
}
