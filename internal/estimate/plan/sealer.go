package plan

import (
	"bytes"
	"errors"
	"io"

	"github.com/andybalholm/brotli"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// trained holds the results of training on a group's values.
type trained struct {
	values *codec.Dict // dictionary of the candidates with one; nil: none
	link   histories   // of the candidates between two gateways
}

// sealer compresses and decompresses values with a candidate.
type sealer interface {
	seal(dst, value []byte, worth func(raw, sealed int) bool) []byte
	open(dst, stored []byte) ([]byte, error)
}

// contentSealer compresses the content of what another library has compressed. open returns it in the
// library's format again.
type contentSealer interface {
	sealer
	sealContent(dst []byte, v subject, content []byte, worth func(raw, sealed int) bool) (out []byte, ok bool)
	openContent(dst, stored []byte) ([]byte, error)
}

// gatewaySealer runs the code of gateways.
type gatewaySealer struct {
	s  *envelope.Sealer
	st codec.Setting
}

func (p gatewaySealer) seal(dst, value []byte, worth func(raw, sealed int) bool) []byte {
	return p.s.Seal(dst, value, p.st, worth)
}

func (p gatewaySealer) open(dst, stored []byte) ([]byte, error) { return p.s.Open(dst, stored) }

func (p gatewaySealer) sealContent(dst []byte, v subject, content []byte, worth func(raw, sealed int) bool) (out []byte, ok bool) {
	out, did := p.s.SealContent(dst, content, envelope.Foreign{Format: uint8(v.format)}, len(v.held), p.st, worth)
	return out, did.Sealed
}

func (p gatewaySealer) openContent(dst, stored []byte) ([]byte, error) {
	return p.s.OpenContent(dst, stored)
}

// singleDict is a store of one dictionary.
type singleDict struct{ d *codec.Dict }

func (o singleDict) Dictionary(number uint32) (*codec.Dict, error) {
	if o.d == nil || o.d.Number() != number {
		return nil, envelope.ErrDictMissing
	}
	return o.d, nil
}

// sealer returns the candidate's sealer.
func (c Candidate) sealer(e *codec.Engine, d trained) sealer {
	switch {
	case c.Brotli > 0:
		return &brotliSealer{quality: c.Brotli}
	case c.encoding != "":
		return &exchangeSealer{e: e, st: c.Setting, encoding: c.encoding, history: d.link}
	}
	st, dictionary := c.Setting, singleDict{}
	if c.Dictionary {
		st.Dict, dictionary.d = d.values.Number(), d.values
	}
	return gatewaySealer{envelope.NewSealer(envelope.SealerOptions{Engine: e, Dicts: dictionary}), st}
}

// brotliSealer compresses with Brotli, after as many bytes as an envelope would have.
type brotliSealer struct {
	quality int
	w       *brotli.Writer
	r       *brotli.Reader
}

const envelopeBytes = 11

// First bytes that tell compressed values from those left unchanged. An envelope of a library's content names
// the format, too.
var (
	brotliMark  = bytes.Repeat([]byte{0xff}, envelopeBytes)
	contentMark = bytes.Repeat([]byte{0xfe}, envelopeBytes+4)
)

func (b *brotliSealer) seal(dst, value []byte, worth func(raw, sealed int) bool) []byte {
	if out, ok := b.compress(dst, brotliMark, value, len(value), worth); ok {
		return out
	}
	return append(dst, value...)
}

func (b *brotliSealer) sealContent(dst []byte, v subject, content []byte, worth func(raw, sealed int) bool) (out []byte, ok bool) {
	return b.compress(dst, contentMark, content, len(v.held), worth)
}

// compress appends mark and the compressed value, if storing these in place of n bytes is worth it.
func (b *brotliSealer) compress(dst, mark, value []byte, n int, worth func(raw, sealed int) bool) ([]byte, bool) {
	out := bytes.NewBuffer(append(dst, mark...))
	if b.w == nil {
		b.w = brotli.NewWriterLevel(out, b.quality)
	}
	b.w.Reset(out)
	_, err := b.w.Write(value)
	if err = errors.Join(err, b.w.Close()); err != nil || !worth(n, out.Len()-len(dst)) {
		return dst, false
	}
	return out.Bytes(), true
}

func (b *brotliSealer) open(dst, stored []byte) ([]byte, error) {
	compressed, ok := bytes.CutPrefix(stored, brotliMark)
	if !ok {
		compressed, ok = bytes.CutPrefix(stored, contentMark)
	}
	if !ok {
		return append(dst, stored...), nil
	}
	src := bytes.NewReader(compressed)
	if b.r == nil {
		b.r = brotli.NewReader(src)
	}
	if err := b.r.Reset(src); err != nil {
		return dst, err
	}
	out := bytes.NewBuffer(dst)
	_, err := io.Copy(out, b.r)
	return out.Bytes(), err
}

// openContent is open: the library's format is not needed.
func (b *brotliSealer) openContent(dst, stored []byte) ([]byte, error) { return b.open(dst, stored) }
