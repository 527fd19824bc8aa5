// Package disk computes what ZFS and btrfs would store of files, by their own arithmetic:
// record by record and unit by unit, with their rounding, their limits and the places where
// they give up. zstd on whole files is off by 10 to 30 %.
//
//	estimate.go     sampling, and what comes out
//	measure.go      the same by a real btrfs, which package trial makes
//	walk.go         files, and their data
//	sum.go          the sums of a setting, and the error of a sample
//	result.go       what is asked for and what is answered
//	zfs.go          one record of ZFS
//	btrfs.go        one range of btrfs
//	heuristic.go    whether btrfs tries to compress it
//	compressor.go   the codecs together
//	lz4.go, lzo.go  the lengths of what LZ4 and LZO make
//	deflate.go, huffman.go   the same of zlib
//	match.go        the search for repetitions that LZ4 and LZO have
//	accuracy.go     how near all of that is to the real filesystems
//	fixed_linux.go  files that btrfs never compresses
//	sizes.go, errors.go   what all others use
//
// Lengths are counted by the published formats (LZ4's block format, LZO's as the kernel
// documents it, RFC 1951), and nothing is written. All figures are held to what real
// filesystems stored: bench/results/disk.md.
package disk
