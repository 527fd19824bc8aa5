package history

import "errors"

// The first byte of a message: version and form.
const (
	formPlain = 0x20
	formBegin = 0x21
	formNext  = 0x22
)

// MaxBytes is the maximum length in bytes of a message that is split. Longer ones stay plain.
const MaxBytes = 16 << 20

// Errors of [Reader.Append]. After either the reader is unusable.
var (
	// ErrCorrupt reports a message that no writer would write next.
	ErrCorrupt = errors.New("corrupt cinch-proto message")
	// ErrTooLarge reports a message that is longer than maxSize.
	ErrTooLarge = errors.New("cinch-proto message too large")
)
