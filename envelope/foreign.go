package envelope

import (
	"fmt"
	"sync"

	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// Foreign describes a value that another library had compressed before Cinch: the format and the level. The envelope
// holds the decompressed content, and opens to the value as that library would store it, for clients that still
// decompress it themselves. The zero value means that no library had compressed the value. docs/FORMAT.md lists the
// numbers.
type Foreign struct {
	Format uint8 // a clientformat.Format; 0: none
	Level  uint8 // of the format's algorithm; for 0, and levels that Cinch never writes, the reader chooses
}

// word returns the extension word for f.
func (f Foreign) word() []byte { return []byte{wordForeign, f.Format, f.Level, 0} }

// MaxValueLen returns the length in bytes of the longest value that the envelope may open to.
func (h Header) MaxValueLen() int {
	if h.IsForeign() {
		return clientformat.MaxLen(clientformat.Format(h.Foreign.Format), h.RawLen)
	}
	return h.RawLen
}

var contents = sync.Pool{New: func() any { return new([]byte) }}

// mostPooled is the largest buffer for contents that is reused, in bytes.
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

// appendForeign appends content to dst in the form in which the library would store it.
func (s *Sealer) appendForeign(dst, content []byte, of Foreign) ([]byte, error) {
	f := clientformat.Format(of.Format)
	if !f.Known() {
		return dst, fmt.Errorf("%w: foreign format %d", ErrUnknownCodec, of.Format)
	}
	out, err := clientformat.Append(dst, f, clientformat.WriterLevel(f, int(of.Level)), content, s.engine)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return out, nil
}
