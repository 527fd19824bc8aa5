// Package foreign reads and writes values as client libraries compressed them before Cinch came. Formats
// are named for their bytes, since several libraries write the same ones. Nothing here does I/O, and
// what opens is bounded by the caller.
//
//	glide-zstd, glide-lz4  00 01 02 | version 0 | backend | zstd frame, or raw length (4, little endian) and LZ4 block
//	zlib                   RFC 1950: django-redis
//	gzip                   RFC 1952: django-redis
//	zstd                   RFC 8878: django-redis, phpredis
//	lz4                    LZ4 frames: django-redis
//	phpredis-lz4           CRC-8 of what follows, raw length (4, little endian) | LZ4 block
//	lzf                    no header at all: phpredis
//
// [Append] makes values that those libraries open: testdata/read has them do it. They are the bytes that the
// library itself wrote where both have the same libzstd: measured with 1.5.7 through cgo, all of GLIDE 2.6's
// and pyzstd's values of 1 byte to 1 MiB at levels 1 to 9, and of phpredis with Debian 12's libzstd 1.5.4
// those up to 8 KiB. GLIDE's above level 9 are not, nor is anything without cgo but what doesn't compress, nor
// the other formats: zlib, liblz4 and LibLZF find other matches than our encoders do. [LevelOf] tells.
//
// The file of formats is foreign.go, and header.go tells them apart; open.go and append.go are the two ways,
// zstd.go, openzstd.go, lz4.go and lzf.go what is particular to an algorithm; family.go is what rules name.
package foreign
