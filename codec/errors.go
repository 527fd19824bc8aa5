package codec

import "errors"

// Errors that callers tell apart with errors.Is.
var (
	// ErrCorrupt: the payload is not what the algorithm writes for a value of
	// the given length with the given dictionary.
	ErrCorrupt = errors.New("corrupt payload")
	// ErrUnknownCodec: a number or name that this version does not know.
	ErrUnknownCodec = errors.New("unknown codec")
	// ErrTooLarge: the algorithm cannot hold a value that long.
	ErrTooLarge = errors.New("value too large for the codec")
	// ErrSetting: a setting that cannot be parsed or carried out.
	ErrSetting = errors.New("invalid setting")
	// ErrDictionary: a dictionary that cannot be used.
	ErrDictionary = errors.New("invalid dictionary")
)
