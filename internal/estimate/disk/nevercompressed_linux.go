package disk

import (
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Files that btrfs never compresses, whatever the mount options: those with nodatacow (chattr +C), and those
// on which fallocate was ever used. Only root sees the second property, since it is only in the inode.
const (
	fsNoCOW            = 0x00800000 // FS_NOCOW_FL
	btrfsTreeSearch    = 0xd0009411 // BTRFS_IOC_TREE_SEARCH
	btrfsInodeItem     = 1          // the type of its keys
	btrfsInodePrealloc = 1 << 4     // in an inode's flags
)

// onBtrfs reports whether a path is on btrfs.
func onBtrfs(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && uint32(st.Type) == unix.BTRFS_SUPER_MAGIC
}

// neverCompressed returns the size of a file that is never compressed; ok is false for all other files.
func neverCompressed(f *os.File) (bytes int64, ok bool) {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return 0, false
	}
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil && flags&fsNoCOW != 0 || inodeFlags(f, st.Ino)&btrfsInodePrealloc != 0 {
		return st.Blocks * 512, true
	}
	return 0, false
}

// btrfsSearch is struct btrfs_ioctl_search_args, with the result for one item.
type btrfsSearch struct {
	treeID, minObject, maxObject, minOffset, maxOffset, minTrans, maxTrans uint64
	minType, maxType, items, _                                             uint32
	_                                                                      [4]uint64
	found                                                                  struct {
		_      [3]uint64 // transaction, object, offset
		_, len uint32
		item   [4096 - 104 - 32]byte
	}
}

// inodeFlagsAt is the offset of the flags in struct btrfs_inode_item.
const inodeFlagsAt = 64

// inodeFlags returns the flags of an inode; 0 if they can't be read.
func inodeFlags(f *os.File, inode uint64) uint64 {
	s := btrfsSearch{
		minObject: inode, maxObject: inode, maxOffset: ^uint64(0), maxTrans: ^uint64(0),
		minType: btrfsInodeItem, maxType: btrfsInodeItem, items: 1,
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), btrfsTreeSearch, uintptr(unsafe.Pointer(&s)))
	if errno != 0 || s.items != 1 || s.found.len < inodeFlagsAt+8 {
		return 0
	}
	return binary.LittleEndian.Uint64(s.found.item[inodeFlagsAt:])
}
