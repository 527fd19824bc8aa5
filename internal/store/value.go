package store

import (
	"errors"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Type is the type of the key or tuple that holds a value.
type Type = policy.Type

// The types that hold values.
const (
	String = policy.String
	Hash   = policy.Hash
	Stream = policy.Stream
)

// A Value is one value as it is stored: a string, or one field of a hash, stream or tuple. Its slices belong
// to the caller that received it from the store.
type Value struct {
	Key   []byte
	Field []byte // nil for a string
	ID    string // of a stream's entry
	Type  Type
	// Stored is nil when Skip is set.
	Stored []byte
	// Skip is the reason why a key, or a field, was not read; then Stored is nil.
	Skip Reason
	// Ref holds the store's data for finding the value again.
	Ref any
}

// Reason says why a value was left unchanged. Reports show it.
type Reason string

// Reasons that stores report. Package pack has more.
const (
	Gone      Reason = "gone or empty"
	Hot       Reason = "in use"            // see ReadOptions
	OtherType Reason = "other type"        // lists, sets, types of modules
	TooLarge  Reason = "too large"         // over ReadOptions.MaxBytes
	Immutable Reason = "stream"            // entries can't be changed
	Denied    Reason = "no right to do so" // the user lacks a right
)

// ReadOptions configure what Read leaves out.
type ReadOptions struct {
	Types    Type // to be read; others are skipped as OtherType, streams as Immutable
	MaxBytes int  // longer values are skipped; 0: no limit

	// A key is hot if it was used less than IdleBelow ago, or, under an LFU policy, if its counter is above
	// FreqAbove. 0: not checked.
	IdleBelow time.Duration
	FreqAbove int
}

// A Change replaces Value.Stored with New.
type Change struct {
	Value *Value
	New   []byte

	Recoded bool // New encodes other bytes than Value, with the same content
}

// Outcome is the result of a Change.
type Outcome struct {
	// Replaced: the change was made. Otherwise nothing was changed; if Skip and Err are empty, the value was
	// no longer the same.
	Replaced bool
	Skip     Reason
	Err      error // any other error of the server
}

// ErrRestarted: the cursor is from another process of the server, so it is invalid. See Node.RunID.
var ErrRestarted = errors.New("the server was restarted")

// Errors of an Outcome after which trying other values is of no use.
var (
	// ErrFull: the server is at its memory limit and refuses to let values grow.
	ErrFull = errors.New("the server is at its memory limit")
	// ErrReadOnly: the server is, or has become, a replica.
	ErrReadOnly = errors.New("the server is a read-only replica")
)

// Memory is a server's own report of its memory, in bytes.
type Memory struct {
	Used        int64
	Limit       int64 // the server's configured limit; 0: none
	System      int64 // of the machine; 0: unknown
	Evicting    bool  // above the limit the server evicts keys instead of refusing writes
	Tuples      int64 // of the tuples in a Tarantool server, as space:bsize() counts; 0: not Tarantool
	AllInMemory bool  // Used counts all that the server holds: nothing is on disk only
}
