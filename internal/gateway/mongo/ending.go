package mongo

import (
	"errors"
	"io"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// errorClass names a violation of the protocol; an ordinary end has none.
func errorClass(err error) string {
	switch {
	case errors.Is(err, gateway.ErrStranger):
		return "stranger"
	case errors.Is(err, wire.ErrNested):
		return "nested"
	case errors.Is(err, wire.ErrTooLarge):
		return "too_large"
	case errors.Is(err, wire.ErrOpCode):
		return "opcode"
	case errors.Is(err, wire.ErrChecksum):
		return "checksum"
	case errors.Is(err, wire.ErrMalformed):
		return "malformed"
	case errors.Is(err, codec.ErrCorrupt):
		return "corrupt"
	case errors.Is(err, errCompressor):
		return "compressor"
	case errors.Is(err, errPair):
		return "pair"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "truncated"
	}
	return ""
}
