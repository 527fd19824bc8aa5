// Package btrfstest stores files on a temporary btrfs, to measure their size there.
//
//	volume_linux.go   the filesystem: made, mounted, written to
//	loop_linux.go     its image, and the loop device of it
//	errors.go         requirements that may be missing
//
// It leaves nothing behind, even if the process is killed: the image has been unlinked when it is filled, the
// loop device is released with its last user, and the mount has no place in the directory tree, so it ends
// with the process, too.
package btrfstest
