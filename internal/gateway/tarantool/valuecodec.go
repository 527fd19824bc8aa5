package tarantool

import (
	"bytes"
	"fmt"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// valueCodec compresses and decompresses values for all sessions of a gateway.
type valueCodec struct {
	gateway.Compressor
	dicts Dicts // nil: none
	log   *slog.Logger
}

func newValueCodec(o envelope.SealerOptions, dicts Dicts, sampler gateway.Sampler, stats *gateway.Stats, log *slog.Logger) *valueCodec {
	if dicts != nil {
		o.Dicts = dicts
	}
	return &valueCodec{Compressor: gateway.Compressor{Sealer: envelope.NewSealer(o), Stats: stats, Sampler: sampler}, dicts: dicts, log: log}
}

// encode appends the envelope of a value that the user login writes, or the value itself, and reports whether it
// appended an envelope. If rule is nil, the value must begin like an envelope, and is wrapped.
func (v *valueCodec) encode(dst, value []byte, rule *policy.Rule, login string) (out []byte, sealed bool) {
	if rule == nil {
		return v.Wrap(dst, value), true
	}
	wanted := rule.SettingFor(login)
	if wanted.Dict != 0 && (v.dicts == nil || !v.dicts.Ready(wanted.Dict)) {
		wanted.Dict = 0
	}
	out, did := v.Compress(dst, value, rule, wanted, policy.Tuple)
	stored := len(out) - len(dst)
	v.Count(rule, &did, len(value), stored)
	if rule.Auto {
		v.Sample(rule, login, nil, value, wanted, did.Setting, stored)
	}
	return out, did.Sealed
}

// errForeign is the error for envelopes of values that other libraries have compressed. The gateway for Tarantool never
// makes such envelopes. Since it refuses them, all that it decompresses has the length declared in the envelope.
var errForeign = fmt.Errorf("%w: the envelope of a value that a Redis client library had compressed", envelope.ErrUnknownCodec)

// decodeStored returns the value of a stored envelope. Unlike decode it does not count the value.
func (v *valueCodec) decodeStored(stored []byte) ([]byte, error) {
	if h, err := envelope.ParseHeader(stored); err == nil && h.IsForeign() {
		return nil, errForeign
	}
	return v.Sealer.Open(nil, stored)
}

// decode appends the value of the envelope stored, whose header is h, and counts it.
func (v *valueCodec) decode(dst, stored []byte, h *envelope.Header) ([]byte, error) {
	began := time.Now()
	out, err := v.Sealer.OpenParsed(dst, stored, *h)
	if err == nil {
		v.Stats.Opened(h.Codec, len(stored), h.RawLen, time.Since(began))
	}
	return out, err
}

// decodeError counts and logs a value that can't be decompressed, and returns the error for the client.
func (v *valueCodec) decodeError(cause error, client string) *refusal {
	class, text := gateway.DecodeFailure(cause)
	v.Stats.Error(class)
	v.log.Warn("compressed value can't be decompressed", "class", class, "client", client, "err", cause)
	return &refusal{wire.ErrSystem, class, "cinch: " + text}
}

var magic = []byte(envelope.Magic)

// hasMagic reports whether a value in b may begin like an envelope.
func hasMagic(b []byte) bool { return bytes.Contains(b, magic) }
