// Package store holds what the stores of all kinds share when values are walked in the
// background: what a value is, and what became of an attempt to replace one.
package store

import (
	"errors"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Type is what kind of thing holds a value.
type Type = policy.Type

// The types that hold values.
const (
	String = policy.String
	Hash   = policy.Hash
	Stream = policy.Stream
)

// A Value is one value as it is stored: a string, or one field of a hash, stream or tuple. Its
// slices belong to whoever the store handed it to.
type Value struct {
	Key   []byte
	Field []byte // nil for a string
	ID    string // of a stream's entry
	Type  Type
	// Stored is nil when Skip is set.
	Stored []byte
	// Skip says why a key, or a field, was not read; then Stored is nil.
	Skip Reason
	// Ref is what the store itself needs to find the value again.
	Ref any
}

// Reason says why something was left as it is. It is shown to people.
type Reason string

// The reasons that a store has itself.
const (
	Gone      Reason = "gone or empty"
	Hot       Reason = "in use"            // see ReadOptions
	OtherType Reason = "other type"        // lists, sets, modules' types
	TooLarge  Reason = "too large"         // over ReadOptions.MaxBytes
	Immutable Reason = "stream"            // entries can't be changed
	Denied    Reason = "no right to do so" // the user may not
)

// ReadOptions say what Read leaves out.
type ReadOptions struct {
	Types    Type // that are read; others are skipped as OtherType, streams as Immutable
	MaxBytes int  // longer values are skipped; 0: none is

	// A key is hot when it was used less than IdleBelow ago, or under an LFU policy when its
	// counter is above FreqAbove. 0 asks nothing.
	IdleBelow time.Duration
	FreqAbove int
}

// A Change puts New in the place of Value.Stored.
type Change struct {
	Value *Value
	New   []byte

	Recoded bool // New stands for other bytes than Value, with the same content
}

// Outcome is what became of a Change.
type Outcome struct {
	// Replaced: it is done. Otherwise nothing was changed, and when Skip and Err are empty
	// that is because the value is no longer what it was.
	Replaced bool
	Skip     Reason
	Err      error // the server's answer, when it is neither
}

// ErrRestarted: the server that answers has not given the cursor, which means nothing to it. See Node.RunID.
var ErrRestarted = errors.New("the server was started anew")

// Errors of an Outcome after which trying other values is of no use.
var (
	// ErrFull: the server is at its memory limit and refuses to let values grow.
	ErrFull = errors.New("the server is at its memory limit")
	// ErrReadOnly: the server is, or has become, a replica.
	ErrReadOnly = errors.New("the server is a read-only replica")
)

// Memory is a server's own account of its memory, in bytes.
type Memory struct {
	Used     int64
	Limit    int64 // what the server was told to keep to; 0: nothing
	System   int64 // of the machine; 0: unknown
	Evicting bool  // above the limit keys are evicted rather than writes refused
	Tuples   int64 // of the tuples that a Tarantool server holds, as space:bsize() counts; 0: not that
	Whole    bool  // Used counts all that the server holds: nothing is on disk alone
}
