// Package clientformat reads and writes values in the formats in which client libraries compress them. Formats are
// named for their bytes, since several libraries write the same ones. It does no I/O, and the caller limits
// what is opened. All functions are safe for concurrent use. Where results are appended to dst, it must not
// overlap the input, to which no reference is kept.
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
// The layouts of GLIDE, Rails and Redisson are taken from their sources, and everything is tested on values that
// the libraries wrote. The content is not interpreted, whether igbinary, Kryo or Marshal serialized it.
//
// Two libraries have no formats of their own: Laravel, which uses phpredis's compression or none, and Spring
// Data Redis, whose users wrap a serializer in Java's gzip or zlib. Some values are not opened: those of
// keyv, which are base64 within JSON; those of Rails 6.1, where Marshal's object holds the compressed string;
// and those of Redisson's SnappyCodec and early SnappyCodecV2, which are chunked.
//
// [Append] makes values that those libraries open, which testdata/read tests. They are the same bytes that the
// library wrote if both have the same libzstd. Measured with 1.5.7 through cgo, that holds for all of GLIDE 2.6's
// and pyzstd's values of 1 byte to 1 MiB at levels 1 to 9, and for Redisson 4.7's vectors; with Debian 12's libzstd
// 1.5.4 it holds for phpredis's values up to 8 KiB. It does not hold for GLIDE's above level 9, without cgo (except
// for incompressible content), or for the other formats: zlib, liblz4, liblzma, LibLZF and Snappy find other
// matches than Cinch's encoders. [LevelOf] checks it for a value.
//
// Reading order: format.go (the formats, and errors) and family.go (names in rules); openany.go (a value in one of
// several formats), open.go and append.go (the two directions) and level.go (repeating a library's bytes); header.go
// (recognising formats) and contentlen.go (how long a content may be); glide.go, phpredis.go, redisson.go, rails.go
// and xz.go (single libraries); openzstd.go and zstd.go, lz4.go, lzf.go, deflate.go and stream.go (shared code).
package clientformat
