package dict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cinch-layer/cinch/codec"
)

// ErrHash reports a dictionary other than the expected one.
var ErrHash = errors.New("dictionary has another hash")

// Save writes a dictionary to a file that holds only its content, so that a trained one works with "zstd -D"
// too. The file is readable by its owner only. It appears completely or not at all, after its content has
// been read back. A file with another dictionary is not replaced, since values may need it; the error then
// wraps fs.ErrExist.
func Save(path string, d *codec.Dict) error {
	_, err := Create(path, d)
	return err
}

// Create is [Save] for a caller that may have to remove the file again: it reports whether it created the
// file. It returns false if the file already held the dictionary, and such a file should be kept.
func Create(path string, d *codec.Dict) (created bool, err error) {
	switch old, err := readFile(path); {
	case err == nil && bytes.Equal(old, d.Content()):
		return false, os.Chmod(path, 0o600)
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("save dictionary %08x: %s: %w", d.Number(), path, fs.ErrExist)
	}
	if err := writeFile(path, d); err != nil {
		return false, fmt.Errorf("save dictionary %08x: %w", d.Number(), err)
	}
	return true, nil
}

// writeFile writes through a temporary file in the same directory.
func writeFile(path string, d *codec.Dict) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".dict-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(d.Content()); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if _, err = LoadHash(f.Name(), d.Hash()); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the new name durable. Systems that cannot sync a directory don't need it.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}

// Load reads the dictionary in a file. It reads at most codec.MaxDictLen+1 bytes. The error wraps
// codec.ErrDictionary if the content is not a dictionary, and otherwise that of the file system.
func Load(path string) (*codec.Dict, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("load dictionary: %w", err)
	}
	d, err := codec.NewDict(content)
	if err != nil {
		return nil, fmt.Errorf("load dictionary %s: %w", path, err)
	}
	return d, nil
}

// LoadHash is [Load] for the dictionary with a given [codec.Dict.Hash]. For any other the error wraps [ErrHash].
func LoadHash(path string, hash [32]byte) (*codec.Dict, error) {
	d, err := Load(path)
	if err != nil {
		return nil, err
	}
	if d.Hash() != hash {
		return nil, fmt.Errorf("load dictionary %s: %w", path, ErrHash)
	}
	return d, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, codec.MaxDictLen+1))
}
