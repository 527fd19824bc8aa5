package main

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/store"
)

// Exit codes. They are documented and stable: scripts branch on them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2   // the command line is wrong
	exitSkipped     = 3   // finished, but some items were skipped
	exitDifference  = 4   // verification found a difference, or damage
	exitUnreachable = 10  // the upstream can't be reached
	exitConfig      = 11  // the configuration is invalid, or a configured store is a gateway
	exitDictMissing = 12  // a dictionary is missing
	exitInterrupted = 130 // a second signal stopped it
)

// exitError is an error with its own exit code. terminal.WithHint may wrap it or be inside it.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// withCode gives err an exit code. A nil error stays nil.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code, err}
}

// printedError is an error that a command has already printed in another form, such as JSON.
type printedError struct{ error }

func (e printedError) Unwrap() error { return e.error }

// markPrinted keeps the exit code of err and prevents err from being printed again. A nil error stays nil.
func markPrinted(err error) error {
	if err == nil {
		return nil
	}
	return printedError{err}
}

// exitCode returns the process's exit code after err.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, store.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, store.ErrConfig):
		return exitConfig
	case errors.Is(err, store.ErrUsage):
		return exitUsage
	}
	return exitFailed
}
