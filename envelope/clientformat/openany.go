package clientformat

import (
	"errors"
	"slices"
)

// MayOpen reports whether a reader may treat a value as one of the formats: because it has the format's header
// or, for formats without one, because it opens. It opens up to maxRaw bytes; a value that opens to more
// counts, since the reader's limit may be higher.
func MayOpen(formats []Format, stored []byte, maxRaw int) bool {
	return slices.ContainsFunc(formats, func(f Format) bool {
		if f.HasHeader() || len(stored) == 0 {
			return f.matchesHeader(stored)
		}
		_, err := Open(nil, f, stored, maxRaw)
		return err == nil || errors.Is(err, ErrTooLarge)
	})
}

// OpenAny opens stored by the format that its header names, and appends the content to dst. It tries formats
// without a header last; such a format must open all of stored. If stored is in none of the formats, it
// returns [ErrNone]. If a header names a format but the value does not open, or if LZF or deflate would open
// to more than maxRaw bytes, it returns the error of [Open]. On an error content is dst unchanged.
func OpenAny(dst []byte, formats []Format, stored []byte, maxRaw int) (content []byte, f Format, err error) {
	failed := ErrNone
	for _, f := range formats {
		if !f.matchesHeader(stored) {
			continue
		}
		if content, err = Open(dst, f, stored, maxRaw); err == nil {
			return content, f, nil
		}
		if errors.Is(failed, ErrNone) {
			failed = err
		}
	}
	for _, f := range formats {
		if f.HasHeader() || len(stored) == 0 {
			continue
		}
		if content, err = Open(dst, f, stored, maxRaw); err == nil {
			return content, f, nil
		}
		if (f == LZF || f == Deflate) && errors.Is(err, ErrTooLarge) && errors.Is(failed, ErrNone) {
			failed = err // the other formats declare a length, which arbitrary bytes may seem to do too
		}
	}
	return dst, 0, failed
}
