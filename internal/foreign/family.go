package foreign

import (
	"errors"
	"maps"
	"slices"
)

// families are what a library's values can be of, by the name that rules have for it.
var families = map[string][]Format{
	"glide":    {GlideZstd, GlideLZ4},
	"phpredis": {PHPRedisLZ4, Zstd, LZF},
	"django":   {Zlib, Gzip, Zstd, LZ4, XZ},
	"redisson": {RedissonZstd, RedissonLZ4, Snappy},
	"rails":    {Rails71, Rails70},
	"lettuce":  {Gzip, Zlib},
	"symfony":  {Deflate},
}

// Names are all that [Named] takes, in order.
func Names() []string {
	all := slices.AppendSeq(slices.Clone(names[1:]), maps.Keys(families))
	slices.Sort(all)
	return all
}

// Named are the formats that a rule's name means: a format's own name, or that of a library which
// writes several.
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

// MayTake reports that somebody, with whatever limit, may take a value for one of the formats: by its header, or because it opens.
// maxRaw is where that trial ends.
func MayTake(formats []Format, stored []byte, maxRaw int) bool {
	return slices.ContainsFunc(formats, func(f Format) bool {
		if f.HasHeader() || len(stored) == 0 {
			return f.heads(stored)
		}
		_, err := Open(nil, f, stored, maxRaw)
		return err == nil || errors.Is(err, ErrTooLarge)
	})
}

// Room is how long a content of a value of n bytes may be for a gateway or packer to open it: 32 times as long, at least 32 KiB.
func Room(n, most int) int { return min(max(32<<10, 32*n), most) }

// Take opens stored by that of the formats which its header names, and appends its content to dst. Formats
// without a header are asked last, and have to open all of it. It fails with [ErrNone] where stored is of none
// of the formats, and with the errors of [Open] where a header names one and the rest is not of it, or one without would open to
// more than maxRaw; then content is dst as it was.
func Take(dst []byte, formats []Format, stored []byte, maxRaw int) (content []byte, f Format, err error) {
	failed := ErrNone
	for _, f := range formats {
		if !f.heads(stored) {
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
			failed = err // others only claim a length, as any bytes may
		}
	}
	return dst, 0, failed
}
