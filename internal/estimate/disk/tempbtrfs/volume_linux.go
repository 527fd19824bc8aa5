package tempbtrfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/internal/estimate/disk/usage"
)

const mkfs = "mkfs.btrfs"

// Volume is a filesystem that only this process sees.
type Volume struct {
	root   *os.File
	file   *os.File // the current one
	number int64    // of the current file
}

// Check returns which requirement of Mount is missing.
func Check() error {
	if os.Geteuid() != 0 {
		return ErrRoot
	}
	fs, err := open()
	if err != nil {
		return err
	}
	unix.Close(fs)
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("%w: %w", ErrLoop, err)
	}
	if _, err := exec.LookPath(mkfs); err != nil {
		return fmt.Errorf("%w: %w", ErrMkfs, err)
	}
	return nil
}

// open opens a context for the kernel's btrfs.
func open() (int, error) {
	fs, err := unix.Fsopen("btrfs", unix.FSOPEN_CLOEXEC)
	switch {
	case errors.Is(err, unix.EPERM):
		return 0, fmt.Errorf("%w: fsopen: %w", ErrRoot, err)
	case err != nil:
		return 0, fmt.Errorf("%w: fsopen: %w", ErrBtrfs, err)
	}
	return fs, nil
}

// Mount makes a filesystem for bytes bytes of files. Close removes it.
func Mount(ctx context.Context, b disk.Btrfs, bytes int64) (disk.Volume, error) {
	if err := Check(); err != nil {
		return nil, err
	}
	image, err := newImage(bytes)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	device, err := attach(image)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	if out, err := exec.CommandContext(ctx, mkfs, "-q", "-f", "-K", device.Name()).CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s %s: %w: %s", mkfs, device.Name(), err, out)
	}
	root, err := mount(device.Name(), b)
	if err != nil {
		return nil, err
	}
	return &Volume{root: root}, nil
}

// mount mounts a device without a place in the directory tree.
func mount(device string, b disk.Btrfs) (*os.File, error) {
	fs, err := open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fs)
	option := "compress"
	if b.Force {
		option = "compress-force"
	}
	if err := errors.Join(unix.FsconfigSetString(fs, "source", device), unix.FsconfigSetString(fs, option, b.Compression)); err != nil {
		return nil, fmt.Errorf("btrfs with %s=%s: %w", option, b.Compression, err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("btrfs with %s=%s on %s: %w", option, b.Compression, device, err)
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	defer unix.Close(tree)
	// The tree is released with the last file open in it.
	root, err := unix.Openat(tree, ".", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return os.NewFile(uintptr(root), "btrfs"), nil
}

// Write writes data at an offset of a file of a given size. Files have numbers, and are written one after the
// other.
func (v *Volume) Write(number, size, at int64, data []byte) error {
	if v.file == nil || v.number != number {
		if err := v.closeFile(); err != nil {
			return err
		}
		fd, err := unix.Openat(int(v.root.Fd()), strconv.FormatInt(number, 10), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return os.NewSyscallError("openat", err)
		}
		v.file, v.number = os.NewFile(uintptr(fd), "btrfs file"), number
		if err := v.file.Truncate(size); err != nil {
			return err
		}
	}
	_, err := v.file.WriteAt(data, at)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EIO) {
		return fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return err
}

func (v *Volume) closeFile() error {
	if v.file == nil {
		return nil
	}
	err := v.file.Close()
	v.file = nil
	return err
}

// Stored returns the size of the files on disk.
func (v *Volume) Stored() (int64, error) {
	if err := v.closeFile(); err != nil {
		return 0, err
	}
	n, err := usage.Filesystem(v.root)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return n, err
}

// Close unmounts and thereby removes the filesystem.
func (v *Volume) Close() error { return errors.Join(v.closeFile(), v.root.Close()) }
