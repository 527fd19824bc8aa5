package history

import (
	"encoding/binary"
	"math/bits"
)

const packedTrials = 32

func packedAs(b []byte) (wire uint8, count int, ok bool) {
	switch {
	case len(b)%8 == 0 && len(b) >= 16 && fixedPay(b, 8):
		return wire64, len(b) / 8, true
	case len(b)%4 == 0 && len(b) >= 16 && fixedPay(b, 4):
		return wire32, len(b) / 4, true
	}
	count, ok = varintsPay(b)
	return wireVarint, count, ok
}

func fixedPay(b []byte, size int) bool {
	last, worth, all := uint64(0), 0, len(b)/size
	for i := 0; i < len(b); i += size {
		if i >= 64 && worth*4 < i/size*3 {
			return false
		}
		var v uint64
		if size == 8 {
			v = binary.LittleEndian.Uint64(b[i:])
		} else {
			v = uint64(binary.LittleEndian.Uint32(b[i:]))
		}
		upper := uint(size) * 8 / 2
		if v>>upper == last>>upper || v>>upper == 0 || size == 8 && isDecimal(v) {
			worth++
		}
		last = v
	}
	return worth*4 >= all*3
}

func isDecimal(v uint64) bool {
	digits, _ := decimal(v)
	return digits != notDecimal
}

func varintsPay(b []byte) (count int, ok bool) {
	const least, extra = 8, 3
	if len(b) < least {
		return 0, false
	}
	var last uint64
	var sum int
	for at := 0; at < len(b); {
		v, size := uvarint(b[at:])
		if at += size; size == 0 {
			return 0, false
		}
		sum += extra + min(bits.Len64(v), bits.Len64(zigzag(v-last)))
		last = v
		if count++; count == 16 && sum*4 > at*8*3 {
			return 0, false
		}
	}
	return count, sum*4 <= len(b)*8*3
}
