// Package disk computes what ZFS and btrfs would store for files, by their own arithmetic: record by record
// and unit by unit, with their rounding, their limits and the conditions under which they give up.
// Compressing whole files with zstd instead is off by 10 to 30 %.
//
//	estimate.go               sampling, and the results
//	measure_btrfs.go          the same by a real btrfs, which package tempbtrfs makes
//	walk.go                   files, and their data
//	sum.go                    the sums of a setting, and the error of a sample
//	result.go                 options and results
//	zfs.go                    one record of ZFS
//	btrfs.go                  one range of btrfs, and the parts into which it splits files
//	heuristic.go              whether btrfs tries to compress it
//	compressor.go             all codecs
//	lz4.go, lzo.go            compressed lengths of LZ4 and LZO
//	deflate.go, huffman.go    the same for zlib
//	match.go                  the search for repetitions of LZ4 and LZO
//	accuracy.go               the accuracy compared with real filesystems
//	nevercompressed_linux.go  files that btrfs never compresses
//	errors.go                 errors that callers distinguish
//
// Lengths are computed from the published formats (LZ4's block format, LZO's as the kernel documents it, RFC
// 1951), without writing output. All figures were compared with what real filesystems stored:
// bench/results/disk.md.
package disk
