package clientformat

import "slices"

// A LibLZF stream is a sequence of these instructions. It has no length:
//
//	000LLLLL                     L+1 bytes follow as they are
//	LLLooooo oooooooo            L+2 bytes are copied from o+1 bytes back, L of 1 to 6
//	111ooooo LLLLLLLL oooooooo   L+9 bytes are
const (
	lzfLiterals = 1 << 5
	lzfLong     = 7
)

func openLZF(dst, src []byte, maxRaw int) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, min(lzfSize(src), maxRaw))
	for len(src) > 0 {
		n, back, used := lzfStep(src)
		switch {
		case used == 0 || back > len(dst)-start:
			return nil, ErrCorrupt
		case n > maxRaw-(len(dst)-start):
			return nil, ErrTooLarge
		case back == 0:
			dst = append(dst, src[used-n:used]...)
		default:
			dst = appendBackref(dst, n, back)
		}
		src = src[used:]
	}
	return dst, nil
}

// lzfSize returns how many bytes the instructions of src produce. It stops at an instruction that is cut off.
func lzfSize(src []byte) (size int) {
	for len(src) > 0 {
		n, _, used := lzfStep(src)
		if used == 0 {
			break
		}
		size += n
		src = src[used:]
	}
	return size
}

// appendBackref appends n bytes, copied from back bytes before the end. If back is less than n, they are repeated.
func appendBackref(dst []byte, n, back int) []byte {
	for from := len(dst) - back; n > 0; {
		piece := min(n, len(dst)-from)
		dst = append(dst, dst[from:from+piece]...)
		n -= piece
	}
	return dst
}

// lzfStep decodes one instruction. It returns how many bytes it makes, from how far back (0 for literals),
// and its length (0 if src ends too early).
func lzfStep(src []byte) (n, back, used int) {
	c := int(src[0])
	if c < lzfLiterals {
		if n = c + 1; len(src) < 1+n {
			return 0, 0, 0
		}
		return n, 0, 1 + n
	}
	n, used = c>>5, 2
	if n == lzfLong {
		used = 3
	}
	if len(src) < used {
		return 0, 0, 0
	}
	if n == lzfLong {
		n += int(src[1])
	}
	return n + 2, (c&0x1f)<<8 + int(src[used-1]) + 1, used
}

// Limits of back references.
const (
	lzfShortest = 3
	lzfLongest  = 264
	lzfFarthest = 1 << 13
)

// lzfTable maps hashes of three bytes to the position of their last occurrence, plus one.
type lzfTable [1 << 12]int32

func (t *lzfTable) swap(src []byte, at int) (before int) {
	three := uint32(src[at])<<16 | uint32(src[at+1])<<8 | uint32(src[at+2])
	slot := &t[three*0x9e3779b1>>20]
	before, *slot = int(*slot)-1, int32(at+1)
	return before
}

// appendLZF uses the first match that it finds.
func appendLZF(dst, src []byte) []byte {
	var table lzfTable
	at, pending := 0, 0 // src[pending:at] is not written yet
	for at+lzfShortest <= len(src) {
		before := table.swap(src, at)
		n := lzfMatch(src, before, at)
		if n < lzfShortest {
			at++
			continue
		}
		dst = appendCopy(appendLiterals(dst, src[pending:at]), n, at-before)
		for end := at + n; at < end; at++ {
			if at > end-n && at+lzfShortest <= len(src) {
				table.swap(src, at)
			}
		}
		pending = at
	}
	return appendLiterals(dst, src[pending:])
}

// lzfMatch returns how many bytes at src[at] equal those at src[before], 0 if before is out of reach.
func lzfMatch(src []byte, before, at int) (n int) {
	if before < 0 || at-before > lzfFarthest {
		return 0
	}
	for most := min(len(src)-at, lzfLongest); n < most && src[before+n] == src[at+n]; n++ {
	}
	return n
}

func appendLiterals(dst, src []byte) []byte {
	for len(src) > 0 {
		n := min(len(src), lzfLiterals)
		dst = append(append(dst, byte(n-1)), src[:n]...)
		src = src[n:]
	}
	return dst
}

func appendCopy(dst []byte, n, back int) []byte {
	n, back = n-2, back-1
	if n < lzfLong {
		return append(dst, byte(n<<5|back>>8), byte(back))
	}
	return append(dst, byte(lzfLong<<5|back>>8), byte(n-lzfLong), byte(back))
}
