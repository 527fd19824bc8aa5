package clientformat

import (
	"errors"
	"maps"
	"slices"
)

// families maps a library's name in rules to the formats of its values.
var families = map[string][]Format{
	"glide":    {GlideZstd, GlideLZ4},
	"phpredis": {PHPRedisLZ4, Zstd, LZF},
	"django":   {Zlib, Gzip, Zstd, LZ4, XZ},
	"redisson": {RedissonZstd, RedissonLZ4, Snappy},
	"rails":    {Rails71, Rails70},
	"lettuce":  {Gzip, Zlib},
	"symfony":  {Deflate},
}

// Names returns all names that [Named] accepts, sorted.
func Names() []string {
	all := slices.AppendSeq(slices.Clone(names[1:]), maps.Keys(families))
	slices.Sort(all)
	return all
}

// Named returns the formats for a name in a rule: the format of that name, or all formats of a library. The
// caller owns the slice. The error wraps [ErrFormat].
func Named(name string) ([]Format, error) {
	if formats, ok := families[name]; ok {
		return slices.Clone(formats), nil
	}
	f, err := Parse(name)
	if err != nil {
		return nil, err
	}
	return []Format{f}, nil
}

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

// MaxContentLen returns the length in bytes up to which a gateway or packer opens the content of a value of n
// bytes: 32*n or 32 KiB, whichever is larger, but never more than most.
func MaxContentLen(n, most int) int { return min(max(32<<10, 32*n), most) }

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
			failed = err // the others only claim a length, as any bytes may
		}
	}
	return dst, 0, failed
}
