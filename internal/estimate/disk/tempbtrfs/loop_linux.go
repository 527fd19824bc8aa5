package tempbtrfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// imageBytes is the size of the filesystem; only what is written takes space. On a small one the kernel
	// writes early, and splits files differently.
	imageBytes = 64 << 30
	// spare is for the filesystem's own data.
	spare = 256 << 20
)

// newImage returns an unlinked file, if there is space for bytes bytes.
func newImage(bytes int64) (*os.File, error) {
	var st unix.Statfs_t
	dir := os.TempDir()
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < bytes+spare {
		return nil, fmt.Errorf("%w in %s: %d MiB are free, and up to %d are needed", ErrSpace, dir, free>>20, (bytes+spare)>>20)
	}
	f, err := os.CreateTemp("", "cinch-exact-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		err = f.Truncate(imageBytes)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// attach attaches the image to a loop device, which is released when nothing uses it any more.
func attach(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLoop, err)
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	copy(config.Info.File_name[:], "cinch plan --exact")
	for range 32 { // another program may take the device first
		var device *os.File
		if device, err = nextDevice(control); err != nil {
			break
		}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrLoop, err)
}

func nextDevice(control *os.File) (*os.File, error) {
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
}
