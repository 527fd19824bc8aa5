package gateway

import (
	"errors"

	"github.com/cinch-layer/cinch"
)

// Unopened says of a sealed value that does not open how it is counted and logged, and what the
// client hears of it, without what its protocol puts in front.
//
// Clients hear the same of a dictionary that is missing, of a tag that is wrong and of any other
// damage: one who plants envelopes must not learn from the answer which dictionaries there are,
// or how near a guess came. What the header alone says, which they can read as well, they are told.
func Unopened(err error) (class, text string) {
	const prefix = "sealed value does not open: "
	switch class = unopenedClass(err); class {
	case "unknown_codec", "too_large":
		return class, prefix + err.Error()
	}
	return class, prefix + "it is damaged or its dictionary is missing, the gateway's log says which"
}

func unopenedClass(err error) string {
	switch {
	case errors.Is(err, cinch.ErrUnknownCodec):
		return "unknown_codec"
	case errors.Is(err, cinch.ErrDictMissing):
		return "dictionary_missing"
	case errors.Is(err, cinch.ErrTooLarge):
		return "too_large"
	case errors.Is(err, cinch.ErrTag):
		return "wrong_tag"
	case errors.Is(err, cinch.ErrDamaged):
		return "damaged"
	}
	return "dictionary_unavailable"
}
