package codec

import "fmt"

// reserve returns dst with room for n more bytes, and allocates exactly that
// where there is less. The zstd libraries and append grow by more.
func reserve(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	grown := make([]byte, len(dst), len(dst)+n)
	copy(grown, dst)
	return grown
}

// wrongLen is the error for a payload that holds got bytes, not want.
func wrongLen(got, want int) error {
	return fmt.Errorf("%w: it holds %d bytes, not %d", ErrCorrupt, got, want)
}
