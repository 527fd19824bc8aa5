package mongo

import (
	"io"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// errorClasses are the violations of the protocol.
var errorClasses = gateway.ErrorClasses{
	{gateway.ErrStranger, "stranger"},
	{wire.ErrNested, "nested"},
	{wire.ErrTooLarge, "too_large"},
	{wire.ErrOpCode, "opcode"},
	{wire.ErrChecksum, "checksum"},
	{wire.ErrMalformed, "malformed"},
	{codec.ErrCorrupt, "corrupt"},
	{errCompressor, "compressor"},
	{errPair, "pair"},
	{io.ErrUnexpectedEOF, "truncated"},
}
