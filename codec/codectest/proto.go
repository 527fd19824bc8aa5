package codectest

import (
	"encoding/binary"
	"fmt"
)

// NestedRecords returns a message of Protocol Buffers whose last element differs from those before only by longer runs
// of parts, each of which has its own text. So version 2 of cinch-proto represents the element by a record and, while
// that is in use, makes a new record of each part. A part has as many numbers as the element, so that its record fits
// the space of the element's.
func NestedRecords(runs, parts, numbers int) (b []byte) {
	element := func(at, parts int) []byte {
		m := binary.AppendUvarint([]byte{1 << 3}, uint64(at))
		for run := range runs {
			for i := range parts {
				m = protoBytes(m, 2+run, protoNumbers(protoBytes(nil, 1, fmt.Append(nil, run, i)), 2, numbers))
			}
		}
		return protoNumbers(m, 15, numbers)
	}
	b = protoBytes(b, 1, element(0, 40))
	for i := range 30 { // until elements are no longer kept as values
		b = protoBytes(b, 1, element(1000+i*i, 2))
	}
	return protoBytes(b, 1, element(1, parts))
}

// ForgottenRecords returns NestedRecords with so many parts that their records exceed the memory for records.
func ForgottenRecords() []byte { return NestedRecords(1, 1950, 250) }

func protoBytes(b []byte, field int, content []byte) []byte {
	b = binary.AppendUvarint(append(b, byte(field<<3|2)), uint64(len(content)))
	return append(b, content...)
}

func protoNumbers(b []byte, field, n int) []byte {
	for i := range n {
		b = append(b, byte(field<<3), byte(i%3))
	}
	return b
}
