package cinch

import (
	"fmt"
	"sync"

	"github.com/cinch-layer/cinch/internal/foreign"
)

// Foreign says how another library had compressed a value whose content an envelope holds: such a value opens
// to the content as that library would store it, for clients that still open it themselves. The zero value is a value
// that is sealed as it is. docs/FORMAT.md lists the numbers.
type Foreign struct {
	Format uint8 // 0: none
	Level  uint8 // of the format's algorithm; 0, or one that no writer of ours chooses: whatever the reader finds good
}

// word is the extension word that says so.
func (f Foreign) word() []byte { return []byte{wordForeign, f.Format, f.Level, 0} }

// MaxValueLen is the length in bytes of the longest value that the envelope may open to.
func (h Header) MaxValueLen() int {
	if h.IsForeign() {
		return foreign.MaxLen(foreign.Format(h.Foreign.Format), h.RawLen)
	}
	return h.RawLen
}

var contents = sync.Pool{New: func() any { return new([]byte) }}

// mostPooled is the longest content, in bytes, whose memory is kept for the next one.
const mostPooled = 1 << 20

func (s *Sealer) openForeign(dst, stored []byte, h Header) ([]byte, error) {
	buf := contents.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= mostPooled {
			contents.Put(buf)
		}
	}()
	content, err := s.OpenContentParsed((*buf)[:0], stored, h)
	*buf = content[:0]
	if err != nil {
		return dst, err
	}
	return s.appendForeign(dst, content, h.Foreign)
}

// appendForeign appends content to dst as the library of a format would store it.
func (s *Sealer) appendForeign(dst, content []byte, of Foreign) ([]byte, error) {
	f := foreign.Format(of.Format)
	if !f.Known() {
		return dst, fmt.Errorf("%w: foreign format %d", ErrUnknownCodec, of.Format)
	}
	out, err := foreign.Append(dst, f, foreign.WriterLevel(f, int(of.Level)), content, s.engine)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return out, nil
}
