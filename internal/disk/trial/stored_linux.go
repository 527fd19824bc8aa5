package trial

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel's headers have on BTRFS_IOC_TREE_SEARCH_V2 and on extents of files.
const (
	treeSearch   = 0xc0709411
	firstInode   = 256
	itemHeader   = 32
	extentData   = 108 // the type of its keys
	extentTypeAt = 20  // in an item: 0 is data in the item itself
	extentInline = 21  // where that begins
	extentAddrAt = 21  // else: where the extent is on the disk, 0: a hole
	extentSizeAt = 29  // and how much it takes there
	extentLeast  = 37
)

type search struct {
	treeID, minObject, maxObject, minOffset, maxOffset, minTrans, maxTrans uint64
	minType, maxType, items, _                                             uint32
	_                                                                      [4]uint64
	size                                                                   uint64
	found                                                                  [64 << 10]byte
}

type item struct {
	object, offset uint64
	kind           uint32
	data           []byte
}

// stored is what the files of a directory's filesystem take, each extent once.
func stored(dir *os.File) (sum int64, err error) {
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return 0, fmt.Errorf("%w: syncfs: %w", ErrSpace, err)
	}
	seen := map[uint64]bool{}
	s := &search{minObject: firstInode, maxObject: ^uint64(0) - firstInode, maxOffset: ^uint64(0), maxTrans: ^uint64(0), maxType: ^uint32(0)}
	for {
		list, err := s.next(dir)
		if err != nil || len(list) == 0 {
			return sum, err
		}
		for _, i := range list {
			sum += i.takes(seen)
		}
	}
}

// next is what comes from a key on, and moves the key behind it.
func (s *search) next(dir *os.File) (list []item, err error) {
	s.items, s.size = ^uint32(0), uint64(len(s.found))
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), treeSearch, uintptr(unsafe.Pointer(s))); errno != 0 {
		return nil, os.NewSyscallError("BTRFS_IOC_TREE_SEARCH_V2", errno)
	}
	at := 0
	for range s.items {
		h := s.found[at:]
		i := item{binary.NativeEndian.Uint64(h[8:]), binary.NativeEndian.Uint64(h[16:]), binary.NativeEndian.Uint32(h[24:]), nil}
		n := int(binary.NativeEndian.Uint32(h[28:]))
		i.data = h[itemHeader : itemHeader+n]
		at += itemHeader + n
		list = append(list, i)
	}
	if len(list) > 0 {
		last := list[len(list)-1]
		s.minObject, s.minType, s.minOffset = last.object, last.kind, last.offset+1
		if s.minOffset == 0 {
			s.minType++
		}
	}
	return list, nil
}

func (i item) takes(seen map[uint64]bool) int64 {
	if i.kind != extentData || len(i.data) < extentInline {
		return 0
	}
	if i.data[extentTypeAt] == 0 {
		return int64(len(i.data) - extentInline)
	}
	if len(i.data) < extentLeast {
		return 0
	}
	address := binary.LittleEndian.Uint64(i.data[extentAddrAt:])
	if address == 0 || seen[address] {
		return 0
	}
	seen[address] = true
	return int64(binary.LittleEndian.Uint64(i.data[extentSizeAt:]))
}
