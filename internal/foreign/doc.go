// Package foreign reads and writes values as client libraries compressed them before Cinch came. Formats
// are named for their bytes, since several libraries write the same ones. Nothing here does I/O, and
// what opens is bounded by the caller.
//
//	glide-zstd, glide-lz4  00 01 02 | version 0 | backend | zstd frame, or raw length (4, little endian) and LZ4 block
//	zlib                   RFC 1950: django-redis, Lettuce
//	gzip                   RFC 1952: django-redis, Lettuce
//	deflate                RFC 1951, no header at all: Symfony's DeflateMarshaller
//	zstd                   RFC 8878: django-redis, phpredis
//	lz4                    LZ4 frames: django-redis
//	xz                     one block with LZMA2: django-redis
//	phpredis-lz4           CRC-8 of what follows, raw length (4, little endian) | LZ4 block
//	lzf                    no header at all: phpredis
//	redisson-lz4           raw length (4, big endian) | LZ4 block
//	redisson-zstd          raw length (4, big endian) | zstd frame
//	snappy                 Snappy block: Redisson
//	rails-7.0, rails-7.1   headers of ActiveSupport::Cache | RFC 1950
//
// The layouts of GLIDE, Rails and Redisson are so by their source, and everything is tested on values that the
// libraries wrote. What those hold is kept as it is, whatever serialized it: igbinary, Kryo, Marshal.
//
// No formats of their own have Laravel, which uses phpredis' compression or none, and Spring Data Redis, whose
// users wrap a serializer in Java's gzip or zlib. Not opened are keyv's values, which are base64 within JSON; those
// of Rails 6.1, where Marshal's object holds the compressed string; and Redisson's SnappyCodec and early
// SnappyCodecV2, which are chunked.
//
// [Append] makes values that those libraries open: testdata/read has them do it. They are the bytes that the
// library itself wrote where both have the same libzstd: measured with 1.5.7 through cgo, all of GLIDE 2.6's
// and pyzstd's values of 1 byte to 1 MiB at levels 1 to 9, Redisson 4.7's vectors, and of phpredis with Debian
// 12's libzstd 1.5.4 those up to 8 KiB. GLIDE's above level 9 are not, nor is anything without cgo but what doesn't
// compress, nor the other formats: zlib, liblz4, liblzma, LibLZF and Snappy find other matches than our encoders
// do. [LevelOf] tells.
//
// Read family.go, what rules name, and level.go; append.go and open.go, the two ways, and header.go, which tells
// formats apart; glide.go, phpredis.go, redisson.go, rails.go and xz.go, what is particular to a library; openzstd.go
// and zstd.go, lz4.go, lzf.go, encode.go and stream.go, what several need; foreign.go, the formats.
package foreign
