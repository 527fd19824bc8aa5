package redis

import (
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
)

// A long value is compressed by zstd while it arrives, block by block between reads. The kernel receives more
// bytes meanwhile, so that after the last byte only one block is left to compress, not the whole value. The
// goroutine that reads also compresses: a second goroutine would save only the time of copying blocks from the
// kernel, which is a tenth of the time that compressing them takes.
//
// Nothing is sent early, since the envelope's length comes first, and the value stays in memory: if
// compressing it gains nothing, or its command turns out to need something else, it is sent unchanged.

// aheadSealer compresses the current value while it arrives.
type aheadSealer struct {
	*envelope.Ahead
	effort          *gateway.Effort
	wanted, lowered codec.Setting // the rule's setting, and the one used
	spent           time.Duration // time spent compressing
}

// matches reports whether value is the one being compressed and wanted is the setting that was given for it.
func (a *aheadSealer) matches(value []byte, wanted codec.Setting) bool {
	return a.wanted == wanted && a.Is(value, a.lowered)
}

// seal is like gateway.Compressor.Compress for the value of n bytes, most of which is compressed already.
func (a *aheadSealer) seal(n int, rule *policy.Rule, t policy.Type) ([]byte, gateway.Compressed) {
	began, stint := time.Now(), a.effort.Begin(n)
	out, did := a.Seal(rule.SavesEnoughFunc(t))
	took := time.Since(began)
	stint.EndOf(a.lowered, took)
	return out, gateway.Compressed{Outcome: did, Setting: a.lowered, Took: took, Spent: took + a.spent}
}

func (a *aheadSealer) arrived(n int) {
	start, stint := time.Now(), a.effort.Begin(n)
	a.Arrived(n)
	stint.End()
	a.spent += time.Since(start)
}

// fillLast reads the rest of an argument after its first have bytes. A value that is worth compressing is compressed
// while it arrives.
func (l *largeRequest) fillLast(buf []byte, have int, at *policy.Address) error {
	const step = codec.FrameBlock
	value := buf[:len(buf)-len(crlf)]
	if at == nil || have < step || !l.sealAhead(value, have, at) {
		return l.reader.in.ReadFull(buf[have:])
	}
	for have < len(buf) {
		to := min(have+step, len(buf))
		if err := l.reader.in.ReadFull(buf[have:to]); err != nil {
			return err
		}
		have = to
		l.rewriter.ahead.arrived(min(to, len(value)))
	}
	return nil
}

// sealAhead starts compressing a value of which have bytes have arrived. It reports false if the value is not
// to be compressed, looks incompressible, or there is no budget for the encoder.
func (l *largeRequest) sealAhead(value []byte, have int, at *policy.Address) bool {
	beginning := value[:codec.FrameBlock]
	st, rule, left := l.rewriter.setting(at, beginning, l.rewriter.state.login())
	if rule == nil || left != "" || rule.Formats != nil || st.Codec.Incompressible(beginning) {
		return false
	}
	wanted, effort := st, l.rewriter.codec.Effort
	st = effort.Lower(st, len(value))
	n := int64(l.rewriter.codec.Sealer.AheadBytes(len(value), st))
	if n == 0 || !l.upstream.life.Requests.TryAcquire(n) {
		return false
	}
	l.encoder = n
	buf := memory.GetBuffer(envelope.MaxSealedLen(st, len(value)))
	a := l.rewriter.codec.Sealer.Ahead(buf, value, st)
	if a == nil {
		memory.PutBuffer(buf)
		return false
	}
	l.rewriter.ahead = &aheadSealer{Ahead: a, effort: effort, wanted: wanted, lowered: st}
	l.rewriter.ahead.arrived(have)
	return true
}

// closeAhead ends compressing the current value while it arrives. It must be called before the value's memory is
// released.
func (l *largeRequest) closeAhead() {
	if l.rewriter.ahead != nil {
		l.rewriter.ahead.Close()
		l.rewriter.ahead = nil
	}
}
