// Package used says what files take on disk, as the filesystem that holds them counts it.
//
//	used.go           a directory: its filesystem, and the sum over its files
//	search_linux.go   btrfs: extents, each once, as compsize counts them
//	filesystem_linux.go, search_other.go   which filesystem it is, and what other systems have
//	zfs.go            what the dataset says of itself
//	errors.go         what can stand in the way
//
// The blocks that stat(2) counts are right but on btrfs, where they are those of the data before compression.
package used
