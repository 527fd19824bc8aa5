package proto

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// Many sections after a long one do not make the decoder copy that for each of them.
func TestManySections(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const long, short = 4 << 20, 300
	o := Options{Setting: codec.Setting{Codec: codec.S2}}
	o.setDefaults()
	zeros, err := o.Engine.Compress(nil, make([]byte, long), o.Setting, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := header{form: formColumns, codec: codec.S2, raw: MaxBytes, columns: long + short}
	sealed := binary.AppendUvarint(h.append(nil), long<<1|1)
	sealed = binary.AppendUvarint(sealed, uint64(len(zeros)))
	sealed = append(sealed, zeros...)
	for range short {
		sealed = append(sealed, 1<<1, 0)
	}
	grew := grown(func() {
		if _, err := NewDecoder(o).Append(nil, sealed, MaxBytes); !errors.Is(err, errColumns) {
			t.Error(err)
		}
	})
	if grew > 6*long {
		t.Errorf("%d bytes sealed, %d of columns: %d bytes allocated", len(sealed), long, grew)
	}
}

// A message with many columns that each make a section, none of which becomes shorter, does not make the
// encoder copy its output for each of them.
func TestManyNoisyColumns(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rng := rand.New(rand.NewPCG(14, 15))
	var message []byte
	for i := range maxChildren - 1 {
		var inner []byte
		for j := range 12 {
			inner = bytesField(inner, 1+j, randomBytes(rng, longColumn+100))
		}
		message = bytesField(message, 1+i, inner)
	}
	message = append(message, records(40_000, 16)...) // so that columns pay
	e := NewEncoder(Options{})
	grew := grown(func() {
		if sealed := e.Append(nil, message); sealed[0] != formColumns || len(e.sections) < 10 {
			t.Errorf("form %x, %d sections", sealed[0], len(e.sections))
		}
	})
	if grew > 20*uint64(len(message)) {
		t.Errorf("%d bytes allocated for a message of %d", grew, len(message))
	}
}

// The encoder's memory stays in proportion to the columns, for a packed field that has as many numbers as bytes.
func TestPackedMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	message := bytesField(nil, 1, make([]byte, keptBytes-15))
	e := NewEncoder(Options{})
	grew := grown(func() {
		if !e.run(message) || len(e.cols[2][colNumbers]) != keptBytes-15 {
			t.Error("it is not packed")
		}
	})
	if grew > 8*keptBytes {
		t.Errorf("%d bytes allocated for a message of %d", grew, len(message))
	}
	if kept := 8 * cap(e.fields); kept > keptBytes {
		t.Errorf("%d bytes of fields are kept", kept)
	}
}

// Each message makes another node have many shapes.
func TestKeptShapes(t *testing.T) {
	var d columnDecoder
	for i := range 60 {
		defs := []byte{byte(i + 1)} // the message: a run of each node, the last one many
		for n := range i + 1 {
			many := byte(0)
			if n == i {
				many = 1
			}
			defs = append(defs, binary.AppendUvarint(nil, uint64(n+1)<<4|pbwire.BytesType<<1|uint64(many))...)
		}
		const shapes = maxShapes - 100
		defs = append(defs, make([]byte, shapes)...) // empty ones
		columns := binary.AppendUvarint(nil, uint64(i+2))
		columns = binary.AppendUvarint(columns, uint64(len(defs)))
		columns = append(columns, 1<<colShapes, 1) // node 0
		for range i {
			columns = append(columns, 1<<colOps|1<<colShapes, 1, 1)
		}
		columns = append(columns, 1<<colOps|1<<colShapes|1<<colCounts)
		columns = binary.AppendUvarint(binary.AppendUvarint(columns, shapes), shapes)
		columns = append(columns, 2)
		columns = append(columns, defs...)
		columns = append(columns, make([]byte, i+shapes)...) // operations: all new
		columns = append(columns, 0)                         // a new shape
		for range i {
			columns = append(columns, 1) // an empty string
		}
		columns = append(columns, make([]byte, shapes)...)
		columns = binary.AppendUvarint(columns, shapes)
		raw := 2 * (i + shapes)
		for n := range i + 1 { // tags of fields above 15 take two bytes
			if n >= 15 {
				if raw++; n == i {
					raw += shapes - 1
				}
			}
		}
		if _, err := d.run(nil, columns, raw); err != nil {
			t.Fatal(i, err)
		}
	}
	kept := 0
	for _, n := range d.nodes[:cap(d.nodes)] {
		kept += cap(n.shapes)
	}
	if kept > 4*maxShapes {
		t.Errorf("room for %d shapes is kept", kept)
	}
}
