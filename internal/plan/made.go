package plan

import (
	"errors"
	"os"

	"github.com/cinch-layer/cinch/codec/dict"
)

// Made are the files that a run has made. Only these may be taken back: a dictionary that was
// there before may be named by another configuration, whatever it holds.
type Made struct{ Names []string }

// Create writes a file that must not exist, as CreatePrivate does.
func (m *Made) Create(name string, content []byte) error {
	if err := CreatePrivate(name, content); err != nil {
		return err
	}
	m.Names = append(m.Names, name)
	return nil
}

// Dictionary writes one, unless the file is there and holds it.
func (m *Made) Dictionary(name string, f DictionaryFile) error {
	created, err := dict.Create(name, f.Dict)
	if created {
		m.Names = append(m.Names, name)
	}
	return err
}

// Remove takes all of them back.
func (m *Made) Remove() (err error) {
	for _, name := range m.Names {
		err = errors.Join(err, os.Remove(name))
	}
	m.Names = nil
	return err
}

// CreatePrivate writes a file that must not exist, for its owner only: an upstream's URL
// may hold a password.
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
