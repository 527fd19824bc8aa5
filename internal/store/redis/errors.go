package redis

import (
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Reasons why a dictionary is not stored or can't be read.
var (
	// ErrCollision: the server holds another dictionary under the same number.
	ErrCollision = errors.New("another dictionary has the same number")
	// ErrEvictable: the server has no functions and would evict the key that holds the
	// dictionary (maxmemory-policy allkeys-…).
	ErrEvictable = errors.New("the server may evict dictionaries")
	// ErrDenied: the gateway's user lacks a permission.
	ErrDenied = errors.New("permission denied by the server")
	// ErrForeign: the server holds something else under a dictionary's name.
	ErrForeign = errors.New("not a dictionary")
)

var (
	// errNoFunctions: the server has no FUNCTION command.
	errNoFunctions = errors.New("the server has no functions")
	// errReadOnly: the server is a replica. The primary's content arrives by replication.
	errReadOnly = errors.New("the server is a read-only replica")
	// errVanished: the dictionary was stored, and was gone when it was read back.
	errVanished = errors.New("stored, but missing when read back")
	// errClient: the caller's client has unsuitable options.
	errClient = errors.New("wrong connection options")
)

// classify wraps a server's error in the sentinel that callers decide on.
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

// isUnknownCommand reports whether the server lacks the command, or hides it.
func isUnknownCommand(err error) bool { return goredis.HasErrorPrefix(err, "unknown command") }

// isElsewhere reports whether the key's slot is on another cluster node. Dictionaries can't be stored as keys
// in a cluster, since keys can't be on every node.
func isElsewhere(err error) bool { return goredis.HasErrorPrefix(err, "MOVED") }

// isTaken reports whether a library could not be loaded because it exists.
func isTaken(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply) && strings.Contains(reply.Error(), "already exists")
}

// isAnswer reports whether err is an answer of the server, not a sign that it can't be reached.
func isAnswer(err error) bool {
	var reply goredis.Error
	for _, ours := range []error{ErrCollision, ErrEvictable, ErrForeign, errVanished, errClient} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return errors.As(err, &reply)
}
