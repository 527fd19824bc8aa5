package tarantool

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/store"
)

// Explain adds the server's name and a hint to an error.
func Explain(name string, err error) error {
	if err == nil || store.IsHinted(err) {
		return err
	}
	e := &store.HintedError{Server: name, Err: err}
	switch {
	case errors.Is(err, ErrLogin):
		e.Help = "put user and password into the URL: tarantool://user:password@host:3301"
	case errors.Is(err, ErrNoInit):
		e.Help = "have an administrator run 'cinch tarantool init' on the master once"
	case errors.Is(err, store.ErrReadOnly):
		e.Help = "give the address of the master"
	case errors.Is(err, ErrSchemaChanged):
		e.Help = "finished work is kept; run the command again to continue with the current schema"
	case errors.Is(err, ErrDenied):
		e.Help = "docs/TARANTOOL.md lists the rights that the user in the URL needs"
	case errors.Is(err, ErrUnreachable):
		e.Class, e.Help = store.ErrUnreachable, "is the server running, and can it be reached from here?"
	}
	return e
}
