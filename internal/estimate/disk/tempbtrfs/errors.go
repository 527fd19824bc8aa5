package tempbtrfs

import "errors"

// Requirements that may be missing.
var (
	ErrRoot  = errors.New("only root can mount a filesystem")
	ErrBtrfs = errors.New("this kernel has no btrfs, or is older than Linux 5.8")
	ErrLoop  = errors.New("no loop device")
	ErrMkfs  = errors.New("mkfs.btrfs not found")
	ErrSpace = errors.New("not enough space")
)
