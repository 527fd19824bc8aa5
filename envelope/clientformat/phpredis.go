package clientformat

import (
	"encoding/binary"

	"github.com/cinch-layer/cinch/codec"
)

// phpHeader is the length of the header: a CRC-8 of the raw length, and the raw length, little endian. An LZ4
// block follows.
const phpHeader = 1 + lz4SizeBytes

// isPHPRedisLZ4 also requires a plausible length, since a checksum of eight bits says little. The library
// stores an empty value as it is, and does not accept a length of 0.
func isPHPRedisLZ4(stored []byte) bool {
	if len(stored) <= phpHeader || stored[0] != crc8(stored[1:phpHeader]) {
		return false
	}
	raw := int64(binary.LittleEndian.Uint32(stored[1:]))
	return raw > 0 && canHold(stored[phpHeader:], raw)
}

func openPHPRedisLZ4(dst, stored []byte, maxRaw int) ([]byte, error) {
	if !isPHPRedisLZ4(stored) {
		return nil, ErrCorrupt
	}
	return openBlock(dst, stored[1:], maxRaw)
}

func appendPHPRedisLZ4(dst []byte, level int, content []byte, e *codec.Engine) ([]byte, error) {
	if len(content) == 0 {
		return nil, ErrContent
	}
	at := len(dst)
	dst, err := appendBlock(append(dst, 0), level, content, e)
	if err == nil {
		dst[at] = crc8(dst[at+1 : at+phpHeader])
	}
	return dst, err
}

// crc8 computes a CRC-8 with polynomial x^8+x^5+x^4+1 and initial value 0xff.
func crc8(b []byte) byte {
	crc := byte(0xff)
	for _, c := range b {
		crc ^= c
		for range 8 {
			if crc&0x80 != 0 {
				crc = crc<<1 ^ crc8Polynomial
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

const crc8Polynomial = 0x31
