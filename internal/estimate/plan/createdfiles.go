package plan

import (
	"errors"
	"os"

	"github.com/cinch-layer/cinch/codec/dict"
)

// CreatedFiles tracks the files that a run has created. Only these may be removed: another configuration may name a
// dictionary that existed before.
type CreatedFiles struct{ Names []string }

// Create creates a file like CreatePrivate.
func (m *CreatedFiles) Create(name string, content []byte) error {
	if err := CreatePrivate(name, content); err != nil {
		return err
	}
	m.Names = append(m.Names, name)
	return nil
}

// Dictionary writes a dictionary, unless the file exists with the same content.
func (m *CreatedFiles) Dictionary(name string, f DictionaryFile) error {
	created, err := dict.Create(name, f.Dict)
	if created {
		m.Names = append(m.Names, name)
	}
	return err
}

// Remove removes all created files.
func (m *CreatedFiles) Remove() (err error) {
	for _, name := range m.Names {
		err = errors.Join(err, os.Remove(name))
	}
	m.Names = nil
	return err
}

// CreatePrivate creates a file readable by its owner only, since an upstream's URL may hold a password. The
// file must not exist.
func CreatePrivate(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
