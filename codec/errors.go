package codec

import "errors"

// Errors that callers tell apart with errors.Is.
var (
	// ErrCorrupt reports a payload that does not decompress to a value of the given length with the given
	// dictionary.
	ErrCorrupt = errors.New("corrupt payload")
	// ErrUnknownCodec reports a number or name that this version does not know.
	ErrUnknownCodec = errors.New("unknown codec")
	// ErrTooLarge reports a value that is too long for the algorithm.
	ErrTooLarge = errors.New("value too large for the codec")
	// ErrSetting reports a setting that cannot be parsed or used.
	ErrSetting = errors.New("invalid setting")
	// ErrDictionary reports a dictionary that cannot be used.
	ErrDictionary = errors.New("invalid dictionary")
)
