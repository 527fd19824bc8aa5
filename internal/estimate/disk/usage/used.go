package usage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrRoot reports that only root can query the size of files.
var ErrRoot = errors.New("only root can read the size of files on btrfs")

// Space is the size on disk of the files below a directory.
type Space struct {
	Bytes int64
	By    string // source of the figure: "btrfs", "ZFS" or "blocks"
	Note  string // further information from the filesystem
}

// Directory writes all unwritten data to disk, and sums up the size of the files below a directory. It
// follows links to directories, which databases use for other volumes. Files that appear or disappear
// meanwhile do no harm.
func Directory(ctx context.Context, name string) (Space, error) {
	root, err := os.Open(name)
	if err != nil {
		return Space{}, err
	}
	defer root.Close()
	s := Space{By: filesystem(name)}
	if err := settle(root); err != nil {
		return s, err
	}
	c := count{ctx: ctx, seen: map[node]bool{}, btrfs: map[uint64]*extents{}}
	if err := c.directory(name); err != nil {
		return s, err
	}
	s.Bytes = c.blocks
	for _, e := range c.btrfs {
		s.Bytes += e.bytes
	}
	if s.By == "ZFS" {
		s.Note = dataset(ctx, name)
	}
	return s, nil
}

// node identifies a file with any number of names.
type node struct{ device, inode uint64 }

type count struct {
	ctx    context.Context
	seen   map[node]bool
	btrfs  map[uint64]*extents // by device
	blocks int64               // of files on other filesystems
}

func (c *count) directory(name string) error {
	if st, err := os.Stat(name); err != nil || !c.first(st) {
		return gone(err)
	}
	onBtrfs := filesystem(name) == "btrfs"
	list, err := os.ReadDir(name)
	if err != nil {
		return gone(err)
	}
	for _, e := range list {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(filepath.Join(name, e.Name()), onBtrfs); err != nil {
			return err
		}
	}
	return nil
}

func (c *count) entry(name string, onBtrfs bool) error {
	st, err := os.Lstat(name)
	if err != nil {
		return gone(err)
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		if to, err := os.Stat(name); err == nil && to.IsDir() {
			return c.directory(name)
		}
	}
	switch {
	case st.IsDir():
		return c.directory(name)
	case !st.Mode().IsRegular() || !c.first(st):
		return nil
	case onBtrfs:
		return c.file(name)
	}
	c.blocks += st.Sys().(*syscall.Stat_t).Blocks * 512
	return nil
}

// file adds the size of a file on btrfs.
func (c *count) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	is := st.Sys().(*syscall.Stat_t)
	e := c.btrfs[uint64(is.Dev)]
	if e == nil {
		e = &extents{}
		c.btrfs[uint64(is.Dev)] = e
	}
	return e.file(f, is.Ino)
}

// first reports whether a file is seen for the first time.
func (c *count) first(st fs.FileInfo) bool {
	is := st.Sys().(*syscall.Stat_t)
	n := node{uint64(is.Dev), is.Ino}
	known := c.seen[n]
	c.seen[n] = true
	return !known
}

// gone ignores the error of a removed file.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
