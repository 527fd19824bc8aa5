package history

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// written returns the frames of a segment with everything in it.
func written() []byte {
	w := &writing{numbers: map[Series]int{}}
	out := w.block.appendRun(nil, writerID{1, 2, 3}, 1000, 0)
	out = w.encode(out, 1, 1000, []Sample{counter("a", "", "", 5), {Series{Name: "b", Gateway: "g"}, Gauge, -7}})
	out = w.encode(out, 2, 11000, []Sample{counter("a", "", "", 9), counter("c", "g", "r", 1<<40)})
	w = &writing{numbers: map[Series]int{}}
	out = w.block.appendRun(out, writerID{4}, 500, 7)
	return w.encode(out, 8, 400, []Sample{counter("a", "", "", 1)})
}

func TestFramesAreReadBack(t *testing.T) {
	all := written()
	var seen []block
	if good := readFrames(all, func(b *block) {
		c := *b
		c.values, c.series = append([]int64{}, b.values...), append([]defined{}, b.series...)
		seen = append(seen, c)
	}); good != len(all) || len(seen) != 3 {
		t.Fatalf("%d of %d bytes, %d points", good, len(all), len(seen))
	}
	second, third := seen[1], seen[2]
	if second.index != 2 || second.time != 11000 || second.values[0] != 9 || second.values[1] != -7 || second.values[2] != 1<<40 || second.series[2].Rule != "r" {
		t.Errorf("%+v", second)
	}
	if third.writer != (writerID{4}) || third.index != 8 || third.first != 8 || third.time != 400 || third.values[0] != 1 {
		t.Errorf("%+v", third)
	}
}

// For any bytes the result of reading is limited and consistent, and its valid part can be read alone.
func FuzzSegment(f *testing.F) {
	f.Add(append(startOf(formPlain), written()...))
	f.Add(packed(engine, bytes.Repeat(written(), 20)))
	f.Add(written()[:50])
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &segment{data: data}
		all, err := s.load(engine)
		if err != nil {
			return
		}
		good := s.scan(all)
		if good > len(all) || s.points > len(all)/headerBytes {
			t.Fatalf("%d good of %d, %d points", good, len(all), s.points)
		}
		again := &segment{data: append(startOf(formPlain), all[:good]...)}
		if part, err := again.load(engine); err != nil || again.scan(part) != good || again.points != s.points {
			t.Fatalf("%v: %d points, then %d", err, s.points, again.points)
		}
	})
}

// The same with correct checksums, so that the bodies are reached.
func FuzzBodies(f *testing.F) {
	for rest := written(); len(rest) > 0; {
		body, next, err := nextFrame(rest)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, byte(1))
		rest = next
	}
	f.Fuzz(func(t *testing.T, body []byte, times byte) {
		frames := written()
		for range times {
			if len(body) > 0 && len(body) <= maxBody {
				frames = appendFrame(frames, func(d []byte) []byte { return append(d, body...) })
			}
		}
		readFrames(frames, func(b *block) {
			if len(b.values) != len(b.series) || len(b.series) > maxSeries {
				t.Fatalf("%d values, %d series", len(b.values), len(b.series))
			}
		})
		h := Open(Options{Engine: engine})
		h.fine.segments = append(h.fine.segments, &segment{data: append(startOf(formPlain), frames...), points: 1, newest: 1 << 62})
		a, err := h.Query(t.Context(), Question{From: start, To: start.AddDate(0, 1, 0), Step: 3600e9})
		if err == nil && len(a.Lines) > maxSeries*(int(times)+2) {
			t.Fatal("too many lines")
		}
	})
}

func TestLengthsAreChecked(t *testing.T) {
	for _, n := range []uint32{0, maxBody + 1, 1 << 31} {
		b := binary.LittleEndian.AppendUint32(nil, n)
		if _, _, err := nextFrame(append(b, make([]byte, 100)...)); err == nil {
			t.Errorf("a frame of %d bytes", n)
		}
	}
}
