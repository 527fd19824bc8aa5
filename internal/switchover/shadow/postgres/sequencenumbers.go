package postgres

import (
	"encoding/binary"
	"strconv"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// sequenceNumbers holds the numbers that production took from a sequence for an operation, as its answer
// shows.
type sequenceNumbers struct {
	serial
	values []int64
}

// isContiguous reports whether no other operation took numbers between them.
func (d sequenceNumbers) isContiguous() bool {
	for i, n := range d.values[1:] {
		if d.increment != 0 && n != d.values[i]+d.increment {
			return false
		}
	}
	return true
}

// numberScanner holds what a unit's answer reveals about sequences.
type numberScanner struct {
	sources []source // columns of the current result
	numbers []sequenceNumbers
}

// scanRow records the numbers in a row.
func (d *numberScanner) scanRow(row []byte) {
	if len(d.sources) == 0 {
		return
	}
	_ = pg.Fields(row, func(i int, value []byte) {
		for _, from := range d.sources {
			if from.at != i {
				continue
			}
			if n, ok := integer(value, from.inBinary); ok {
				d.addNumber(from.serial, n)
			}
		}
	})
}

func (d *numberScanner) addNumber(from serial, n int64) {
	for i := range d.numbers {
		if d.numbers[i].sequence == from.sequence {
			d.numbers[i].values = append(d.numbers[i].values, n)
			return
		}
	}
	d.numbers = append(d.numbers, sequenceNumbers{from, []int64{n}})
}

func integer(value []byte, inBinary bool) (int64, bool) {
	if !inBinary {
		n, err := strconv.ParseInt(string(value), 10, 64)
		return n, err == nil
	}
	switch len(value) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(value))), true
	case 4:
		return int64(int32(binary.BigEndian.Uint32(value))), true
	case 8:
		return int64(binary.BigEndian.Uint64(value)), true
	}
	return 0, false
}

// sequenceEffect says what an operation may do to sequences beyond the numbers in its answer.
type sequenceEffect uint8

const (
	noSequenceEffect  sequenceEffect = iota
	advancesSequences                // it may take the next numbers
	setsSequences                    // it may set them to any value
)
