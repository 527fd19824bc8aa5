// Package durable writes files that a loss of power leaves whole.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile replaces the content of a file, which only its owner may read. A reader, or a process that begins
// after a crash, finds the old content or the new one. When WriteFile has returned nil it finds the new one,
// also after a loss of power. After an error the old content is in place, unless the error is the
// directory's: then either may be.
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
