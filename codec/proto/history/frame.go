package history

import "errors"

// The first byte of a message: version and form.
const (
	formPlain = 0x20
	formBegin = 0x21
	formNext  = 0x22
)

// MaxBytes is how long a message is at most that is taken apart. Longer ones stay plain.
const MaxBytes = 16 << 20

var (
	// ErrCorrupt: the message is not what a writer writes next. A reader that has met one is of no use any more.
	ErrCorrupt = errors.New("corrupt cinch-proto message")
	// ErrTooLarge: the message would be longer than the limit.
	ErrTooLarge = errors.New("cinch-proto message too large")
)
