package redis

import (
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/cinch-layer/cinch/internal/store"
)

// The client library would otherwise write to standard error what its callers return as errors.
func init() { goredis.SetLogger(&logging.VoidLogger{}) }

// Explain adds the server's name and a hint to an error. An error that is not a server's answer gets the
// class store.ErrUnreachable.
func Explain(name string, err error) error {
	var answer goredis.Error
	e := &store.HintedError{Server: name, Err: err}
	switch {
	case err == nil, store.IsHinted(err):
		return err
	case errors.Is(err, ErrDenied):
		e.Help = "looking for dictionaries needs +function|list, and +getrange and +scan on ~cinch:dict:*; docs/DICTIONARIES.md lists the rights"
	case goredis.HasErrorPrefix(err, "NOPERM"):
		e.Help = "grant the user in the URL that right; docs/DICTIONARIES.md and docs/PACK.md list the rights"
	case goredis.HasErrorPrefix(err, "READONLY"):
		e.Help = primaryHelp
	case errors.Is(err, ErrForeign):
	case goredis.HasErrorPrefix(err, "NOAUTH"), goredis.HasErrorPrefix(err, "WRONGPASS"):
		e.Help = "name the user in the URL, redis://user@host:6379, and the password in a file: --password-file, or CINCH_PASSWORD_FILE"
	case errors.As(err, &answer):
	default:
		e.Class, e.Help = store.ErrUnreachable, "is the server running, and can it be reached from here?"
	}
	return e
}

const primaryHelp = "give the address of the primary"

// ExplainWalk is Explain for walks over all values.
func ExplainWalk(name string, err error) error {
	switch {
	case store.IsHinted(err):
		return err
	case errors.Is(err, ErrReplica):
		return &store.HintedError{Server: name, Err: err, Help: primaryHelp}
	case errors.Is(err, ErrDenied):
		return &store.HintedError{Server: name, Err: err, Help: "docs/PACK.md lists under Rights what the user in the URL needs; values with dictionaries also need +function|list"}
	}
	return Explain(name, err)
}

// ExplainPlan is Explain for sampling values.
func ExplainPlan(name string, err error) error {
	if goredis.HasErrorPrefix(err, "NOPERM") {
		return &store.HintedError{Server: name, Err: err, Help: "planning needs +info +dbsize +scan +type +getrange +strlen +get +hlen +hgetall +hscan +memory|usage on the keys; docs/PLAN.md has the whole list"}
	}
	return Explain(name, err)
}

// markUnknown adds store.ErrDictUnknown to errors that leave open whether the server has a dictionary.
func markUnknown(err error) error {
	if Unavailable(err) || errors.Is(err, ErrDenied) {
		return fmt.Errorf("%w: %w", store.ErrDictUnknown, err)
	}
	return err
}
