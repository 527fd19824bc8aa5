package usage

import (
	"os"

	"golang.org/x/sys/unix"
)

// zfsMagic is the type of ZFS in statfs(2).
const zfsMagic = 0x2fc12fc1

// filesystem returns the source of a file's size on disk.
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

// settle waits until a filesystem has written everything, since btrfs and ZFS compress then.
func settle(dir *os.File) error { return os.NewSyscallError("syncfs", unix.Syncfs(int(dir.Fd()))) }
