package clientformat

import (
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
