package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// imageBytes is the size of a filesystem in a file. The file is sparse.
const imageBytes = 16 << 30

// Mount makes a filesystem in a file under work and mounts it at the directory work/name, which then belongs
// to the user postgres. It needs root. at is the mount point, also after a later step has failed; "" if
// nothing is mounted.
func Mount(ctx context.Context, work, name, kind, options string) (at string, err error) {
	dir := filepath.Join(work, name)
	image := dir + "." + kind
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, imageBytes), os.Mkdir(dir, 0o711)); err != nil {
		return "", err
	}
	if err := Output(exec.CommandContext(ctx, "mkfs."+kind, "-q", image)); err != nil {
		return "", err
	}
	if err := Output(exec.CommandContext(ctx, "mount", "-t", kind, "-o", "loop,"+options, image, dir)); err != nil {
		return "", fmt.Errorf("%w\nthis needs a kernel with %s and a free loop device", err, kind)
	}
	_, err = PostgresUser(work, dir)
	return dir, err
}

// ErrNoMount reports that a filesystem can't be mounted here.
var ErrNoMount = errors.New("can't mount a filesystem")

// MountMemory creates a directory and mounts a tmpfs of the given size there. It needs root.
func MountMemory(dir string, bytes int64) error {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	if err := Output(exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=0711", bytes), "tmpfs", dir)); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrNoMount, err), os.Remove(dir))
	}
	return nil
}

// Fill fills the filesystem with a file.
func Fill(dir string) error {
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		return err
	}
	defer f.Close()
	zeroes := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(zeroes)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// Unmount retries for five seconds: a process that was ended may still use the filesystem.
func Unmount(at string) (err error) {
	for range 50 {
		if err = Output(exec.Command("umount", at)); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// Output runs a command. If it fails, the error contains its output.
func Output(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// NeedPrograms returns an error that names a missing program and the Debian package that provides it.
func NeedPrograms(packages map[string]string) error {
	for program, from := range packages {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: install %s", program, from)
		}
	}
	return nil
}
