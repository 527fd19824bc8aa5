// Package durable replaces files atomically: a power failure leaves the old content or the new one.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile replaces the content of a file, which only its owner may read. At any time, and after a crash, the
// file has either the old content or the new one. Once WriteFile has returned nil it has the new one, even after
// a power failure. After an error it has the old one, unless only syncing the directory failed: then it may have
// either.
func WriteFile(name string, content []byte) error {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := os.CreateTemp(dir.Name(), "."+filepath.Base(name)+".*.new") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	err = dir.Sync() // otherwise the old content might be back
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // some filesystems can't sync directories
	}
	return err
}
