package gateway

import (
	"errors"

	"github.com/cinch-layer/cinch/envelope"
)

// DecodeFailure returns the error class, for counters and logs, of a value that can't be decoded, and the text of
// the error for the client, without a prefix of the protocol.
//
// Clients get the same text for a missing dictionary, a wrong tag and any other damage: a client that writes
// forged envelopes must not learn from it which dictionaries exist, or how close a guess was. Errors that follow
// from the header alone are told in full, since clients can read the header too.
func DecodeFailure(err error) (class, text string) {
	const prefix = "compressed value can't be decompressed: "
	switch class = decodeErrorClass(err); class {
	case "unknown_codec", "too_large":
		return class, prefix + err.Error()
	}
	return class, prefix + "it is damaged or its dictionary is missing, see the gateway's log"
}

func decodeErrorClass(err error) string {
	switch {
	case errors.Is(err, envelope.ErrUnknownCodec):
		return "unknown_codec"
	case errors.Is(err, envelope.ErrDictMissing):
		return "dictionary_missing"
	case errors.Is(err, envelope.ErrTooLarge):
		return "too_large"
	case errors.Is(err, envelope.ErrTag):
		return "wrong_tag"
	case errors.Is(err, envelope.ErrDamaged):
		return "damaged"
	}
	return "dictionary_unavailable"
}
