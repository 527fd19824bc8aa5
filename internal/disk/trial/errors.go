package trial

import "errors"

// Requirements that may be missing.
var (
	ErrRoot  = errors.New("only root can mount a filesystem")
	ErrBtrfs = errors.New("this kernel has no btrfs, or is older than Linux 5.8")
	ErrLoop  = errors.New("there is no loop device")
	ErrMkfs  = errors.New("there is no mkfs.btrfs")
	ErrSpace = errors.New("too little space")
)
