// Package usage returns the size of files on disk, as counted by their filesystem.
//
//	used.go           a directory: its filesystem, and the sum over its files
//	search_linux.go   btrfs: extents, each once, as compsize counts them
//	filesystem_linux.go, search_other.go   the kind of filesystem; other systems
//	zfs.go            what ZFS reports on the dataset
//
// The block counts of stat(2) are right except on btrfs, where they are those of the data before compression.
package usage
