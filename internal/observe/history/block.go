package history

import (
	"encoding/binary"
	"fmt"
)

// Series identifies a series by its name, gateway and rule. Gateway and rule are empty if it belongs to the process.
type Series struct {
	Name    string `json:"name"`
	Gateway string `json:"gateway,omitempty"`
	Rule    string `json:"rule,omitempty"`
}

// Kind tells how to interpret the values of a series.
type Kind uint8

// A Counter begins at 0 with its process and only grows; a Gauge goes up and down.
const (
	Counter Kind = iota
	Gauge
)

func (k Kind) String() string {
	switch k {
	case Counter:
		return "counter"
	case Gauge:
		return "gauge"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Sample is the value of a series at a time.
type Sample struct {
	Series
	Kind  Kind
	Value int64
}

// writerID identifies a process.
type writerID [16]byte

// defined is a series defined in a block.
type defined struct {
	Series
	kind Kind
}

// block is the state of what one process has written into one segment, as far as it has been read or written.
type block struct {
	writer writerID
	series []defined
	values []int64 // by series
	index  uint64  // of the last point
	time   int64   // of the last point, in milliseconds
	first  uint64  // index of the first point
	points int
}

// appendRun appends the frame that begins a block, and resets b to an empty block.
func (b *block) appendRun(dst []byte, writer writerID, start int64, index uint64) []byte {
	*b = block{writer: writer, time: start, index: index, series: b.series[:0], values: b.values[:0]}
	return appendFrame(dst, func(d []byte) []byte {
		d = append(append(d, bodyRun), writer[:]...)
		return binary.AppendUvarint(binary.AppendVarint(d, start), index)
	})
}

// appendSeries appends the definition of a series, which gets the next number.
func (b *block) appendSeries(dst []byte, s Series, k Kind) []byte {
	b.define(s, k)
	return appendFrame(dst, func(d []byte) []byte {
		return appendText(appendText(appendText(append(d, bodySeries, byte(k)), s.Name), s.Gateway), s.Rule)
	})
}

func (b *block) define(s Series, k Kind) {
	b.series = append(b.series, defined{s, k})
	b.values = append(b.values, 0)
}

// appendPoint appends a point. values are in the order of the series' numbers, one for each series.
func (b *block) appendPoint(dst []byte, index uint64, time int64, values []int64) []byte {
	dst = appendFrame(dst, func(d []byte) []byte {
		d = binary.AppendVarint(binary.AppendUvarint(append(d, bodyPoint), index-b.index), time-b.time)
		skipped := uint64(0)
		for i, v := range values {
			if v == b.values[i] {
				skipped++
				continue
			}
			d = binary.AppendVarint(binary.AppendUvarint(d, skipped), v-b.values[i])
			skipped = 0
		}
		return d
	})
	copy(b.values, values)
	b.pointed(index, time)
	return dst
}

func (b *block) pointed(index uint64, time int64) {
	if b.points == 0 {
		b.first = index
	}
	b.index, b.time = index, time
	b.points++
}

// visitor is called for each point of a segment. The block is valid during the call.
type visitor func(b *block)

// readFrames reads frames until they end or one is incomplete, and calls point for each point. It returns the
// number of valid bytes.
func readFrames(src []byte, point visitor) (good int) {
	var b *block
	for rest := src; len(rest) > 0; {
		body, next, err := nextFrame(rest)
		if err != nil {
			return good
		}
		was := b
		if b, err = b.read(body); err != nil {
			return good
		}
		if b == was && body[0] == bodyPoint && point != nil {
			point(b)
		}
		rest, good = next, len(src)-len(next)
	}
	return good
}

// read parses a body; b is nil before the first block.
func (b *block) read(body []byte) (*block, error) {
	f := &fields{src: body[1:]}
	switch kind := body[0]; {
	case kind == bodyRun:
		return readRun(f)
	case b == nil:
		return nil, errTorn
	case kind == bodySeries:
		return b, b.readSeries(f)
	case kind == bodyPoint:
		return b, b.readPoint(f)
	}
	return b, errTorn
}

func readRun(f *fields) (*block, error) {
	b := &block{}
	copy(b.writer[:], f.bytes(uint64(len(b.writer))))
	b.time, b.index = f.signed(), f.unsigned()
	if !f.ok() || len(f.src) > 0 {
		return b, errTorn
	}
	return b, nil
}

func (b *block) readSeries(f *fields) error {
	kind := f.bytes(1)
	s := Series{Name: f.text(), Gateway: f.text(), Rule: f.text()}
	if !f.ok() || len(f.src) > 0 || len(b.series) >= maxSeries || Kind(kind[0]) > Gauge {
		return errTorn
	}
	b.define(s, Kind(kind[0]))
	return nil
}

func (b *block) readPoint(f *fields) error {
	index, time := b.index+f.unsigned(), b.time+f.signed()
	if !f.ok() || index <= b.index {
		return errTorn
	}
	for i := uint64(0); len(f.src) > 0; i++ {
		skipped, change := f.unsigned(), f.signed()
		i += min(skipped, maxSeries)
		if !f.ok() || i >= uint64(len(b.values)) {
			return errTorn
		}
		b.values[i] += change
	}
	b.pointed(index, time)
	return nil
}
