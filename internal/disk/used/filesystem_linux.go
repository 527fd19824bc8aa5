package used

import (
	"os"

	"golang.org/x/sys/unix"
)

// zfsMagic is what statfs(2) says of ZFS.
const zfsMagic = 0x2fc12fc1

// filesystem says by whose count a file's size on disk is known.
func filesystem(name string) string {
	var st unix.Statfs_t
	if unix.Statfs(name, &st) == nil {
		switch uint32(st.Type) {
		case unix.BTRFS_SUPER_MAGIC:
			return "btrfs"
		case zfsMagic:
			return "ZFS"
		}
	}
	return "blocks"
}

// settle waits until all of a filesystem is on disk: btrfs and ZFS compress then.
func settle(dir *os.File) error { return os.NewSyscallError("syncfs", unix.Syncfs(int(dir.Fd()))) }
