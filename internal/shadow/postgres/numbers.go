package postgres

import (
	"encoding/binary"
	"strconv"

	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// draw holds the numbers that production took from a sequence for an operation, as its answer shows.
type draw struct {
	serial
	numbers []int64
}

// dense reports whether no other operation took numbers between them.
func (d draw) dense() bool {
	for i, n := range d.numbers[1:] {
		if d.increment != 0 && n != d.numbers[i]+d.increment {
			return false
		}
	}
	return true
}

// drawn holds what a unit's answer reveals about sequences.
type drawn struct {
	sources []source // columns of the current result
	draws   []draw
}

// take records the numbers in a row.
func (d *drawn) take(row []byte) {
	if len(d.sources) == 0 {
		return
	}
	_ = pg.Fields(row, func(i int, value []byte) {
		for _, from := range d.sources {
			if from.at != i {
				continue
			}
			if n, ok := integer(value, from.inBinary); ok {
				d.note(from.serial, n)
			}
		}
	})
}

func (d *drawn) note(from serial, n int64) {
	for i := range d.draws {
		if d.draws[i].sequence == from.sequence {
			d.draws[i].numbers = append(d.draws[i].numbers, n)
			return
		}
	}
	d.draws = append(d.draws, draw{from, []int64{n}})
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

// stir says what an operation may do to sequences beyond the numbers in its answer.
type stir uint8

const (
	stirsNothing stir = iota
	stirsOn           // it may take the next numbers
	stirsAll          // it may set them to any value
)
