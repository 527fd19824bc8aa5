package foreign

// LibLZF's stream is a row of these, and no length stands anywhere:
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
			for range n { // what is copied may begin in what is being written
				dst = append(dst, dst[len(dst)-back])
			}
		}
		src = src[used:]
	}
	return dst, nil
}

// lzfStep reads one instruction: how many bytes it makes, from how far back, 0 for those that it holds
// itself, and how long it is, 0 where src ends too early.
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
