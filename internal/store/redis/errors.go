package redis

import (
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Why a dictionary is not stored, or could not be read.
var (
	// ErrCollision: the server holds another dictionary under the same number.
	ErrCollision = errors.New("another dictionary has the same number")
	// ErrEvictable: the server has no functions and would evict the key that holds the
	// dictionary (maxmemory-policy allkeys-…).
	ErrEvictable = errors.New("the server may evict dictionaries")
	// ErrDenied: the user that the gateway authenticates as lacks a permission.
	ErrDenied = errors.New("permission denied by the server")
	// ErrForeign: under a dictionary's name the server holds something else.
	ErrForeign = errors.New("not a dictionary")
)

var (
	// errNoFunctions: the server has no FUNCTION command.
	errNoFunctions = errors.New("the server has no functions")
	// errReadOnly: the server is a replica. What the primary holds arrives by itself.
	errReadOnly = errors.New("the server is a read-only replica")
	// errVanished: stored, and gone when it was read back.
	errVanished = errors.New("it was stored and could not be read back")
	// errClient: the client handed over is not fit for the purpose.
	errClient = errors.New("wrong connection options")
)

// classify gives the server's errors that callers decide on their sentinel.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case goredis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	case goredis.HasErrorPrefix(err, "READONLY"):
		return fmt.Errorf("%w: %w", errReadOnly, err)
	}
	return err
}

// isUnknownCommand recognizes the answer to a command that the server lacks or hides.
func isUnknownCommand(err error) bool { return goredis.HasErrorPrefix(err, "unknown command") }

// isElsewhere recognizes a cluster's node that has not the slot of a key. Dictionaries of
// its values would not be there: keys can't be on every node.
func isElsewhere(err error) bool { return goredis.HasErrorPrefix(err, "MOVED") }

// isTaken recognizes the answer to loading a library that is there.
func isTaken(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply) && strings.Contains(reply.Error(), "already exists")
}

// isAnswer reports whether err is the server's word and not a sign that it can't be
// reached.
func isAnswer(err error) bool {
	var reply goredis.Error
	for _, ours := range []error{ErrCollision, ErrEvictable, ErrForeign, errVanished, errClient} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return errors.As(err, &reply)
}
