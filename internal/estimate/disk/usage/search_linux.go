package usage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From the kernel's headers, on BTRFS_IOC_TREE_SEARCH_V2 and on extents of files.
const (
	treeSearch   = 0xc0709411
	firstInode   = 256
	itemHeader   = 32
	extentData   = 108 // the type of its keys
	extentTypeAt = 20  // offset in an item; 0 means data in the item itself
	extentInline = 21  // offset of that data
	extentAddrAt = 21  // otherwise: offset of the extent's address on disk, 0 for a hole
	extentSizeAt = 29  // offset of its size on disk
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

// Filesystem writes all data to disk and returns the size of the files of a directory's btrfs, with each
// extent counted once.
func Filesystem(dir *os.File) (int64, error) {
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return 0, fmt.Errorf("syncfs: %w", err)
	}
	e := extents{}
	err := e.add(dir, &search{minObject: firstInode, maxObject: ^uint64(0) - firstInode, maxOffset: ^uint64(0), maxTrans: ^uint64(0), maxType: ^uint32(0)})
	return e.bytes, err
}

// file adds the size of a file on btrfs.
func (e *extents) file(f *os.File, inode uint64) error {
	return e.add(f, &search{
		minObject: inode, maxObject: inode, maxOffset: ^uint64(0), maxTrans: ^uint64(0), minType: extentData, maxType: extentData,
	})
}

// add adds all results of a search.
func (e *extents) add(in *os.File, s *search) error {
	for {
		list, err := s.next(in)
		if errors.Is(err, unix.EPERM) {
			err = ErrRoot
		}
		if err != nil || len(list) == 0 {
			return err
		}
		for _, i := range list {
			e.bytes += i.takes(e)
		}
	}
}

// extents records the extents that were counted, with a bit for each 4 KiB at which one can begin.
type extents struct {
	bytes int64
	seen  map[uint64]*[512]uint64
}

// first reports whether an extent has not been counted, and records it.
func (e *extents) first(address uint64) bool {
	if e.seen == nil {
		e.seen = map[uint64]*[512]uint64{}
	}
	place := address >> 12
	page := e.seen[place>>15]
	if page == nil {
		page = &[512]uint64{}
		e.seen[place>>15] = page
	}
	word, bit := place>>6&511, uint64(1)<<(place&63)
	known := page[word]&bit != 0
	page[word] |= bit
	return !known
}

// next returns the items from the key on, and moves the key past them.
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

func (i item) takes(e *extents) int64 {
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
	if address == 0 || !e.first(address) {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(i.data[extentSizeAt:]))
}
