// Package disk computes what ZFS and btrfs would store of files, by their own arithmetic:
// record by record and unit by unit, with their rounding, their limits and the places where
// they give up. zstd on whole files is off by 10 to 30 %.
//
//	lz4.go     the LZ4 of 2012 that ZFS has
//	zfs.go     one record of ZFS
//	btrfs.go   one range of btrfs, and its heuristic
//	deflate.go, huffman.go   the lengths of what the kernel's zlib writes
//	lzo.go     the same of its LZO1X-1
//	walk.go    files, and their data
//	estimate.go   sampling, and what comes out
//	fixed_linux.go   files that btrfs never compresses
package disk
