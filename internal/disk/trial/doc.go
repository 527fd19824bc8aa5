// Package trial stores files on a btrfs of its own, to see what they take there.
//
//	volume_linux.go   the filesystem: made, mounted, written to
//	loop_linux.go     its image, and the loop device that it is on
//	errors.go         what can be missing
//
// Nothing of it can be left behind, even by a process that is killed: the image has no name
// any more when it is filled, the loop device goes with its last user, and the mount is at no
// place in the tree, so it goes with the process, too.
package trial
