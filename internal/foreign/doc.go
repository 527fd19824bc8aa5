// Package foreign reads values that client libraries compressed before Cinch came. Formats are
// named for their bytes, since several libraries write the same ones. Nothing here does I/O, and
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
// The file of formats is foreign.go; open.go opens streams and blocks, lzf.go is LibLZF's format.
package foreign
