// Package tempbtrfs stores files on a temporary btrfs, to measure their size there.
//
//	volume_linux.go   making, mounting and writing the filesystem
//	loop_linux.go     its image, and the loop device for it
//	errors.go         requirements that may be missing
//
// It leaves nothing behind, even if the process is killed: the image is unlinked before it is filled, the
// loop device is released when its last user closes it, and the mount is not attached to the directory tree, so
// it ends with the process, too.
package tempbtrfs
