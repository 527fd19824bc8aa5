package history

import "errors"

// The first byte of a message: version and form.
const (
	formPlain = 0x20
	formBegin = 0x21
	formNext  = 0x22
)

// MaxBytes is the maximum length of a message that is split. Longer ones stay plain.
const MaxBytes = 16 << 20

var (
	// ErrCorrupt reports a message that no writer would write next. After it a reader is unusable.
	ErrCorrupt = errors.New("corrupt cinch-proto message")
	// ErrTooLarge reports a message beyond the limit.
	ErrTooLarge = errors.New("cinch-proto message too large")
)
