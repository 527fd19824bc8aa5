package codec

import "fmt"

// reserve returns dst with room for n more bytes. If it has to allocate, it allocates exactly that much: the
// zstd libraries and append grow by more.
func reserve(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	grown := make([]byte, len(dst), len(dst)+n)
	copy(grown, dst)
	return grown
}

// wrongLen returns the error for a payload that holds got bytes instead of want.
func wrongLen(got, want int) error {
	return fmt.Errorf("%w: it holds %d bytes, not %d", ErrCorrupt, got, want)
}
