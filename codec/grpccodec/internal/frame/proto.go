package frame

import (
	"bytes"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/proto"
)

// keptProtoBytes limits the idle buffers of a state.
const keptProtoBytes = 4 << 20

// ProtoEncoder is an encoder of cinch-proto. It collects a message, which is split into columns as a whole. A
// message that exceeds the maximum length continues as a stream.
type ProtoEncoder struct {
	Columns *proto.Encoder // also for whole messages, while no stream is being written
	message []byte
	packed  []byte
	out     sink
	long    Encoder // zstd; nil: the message is not that long
}

// NewProtoEncoder returns an encoder whose columns are compressed by the engine, or stored uncompressed if
// stored is set.
func NewProtoEncoder(engine *codec.Engine, stored bool) *ProtoEncoder {
	return &ProtoEncoder{Columns: proto.NewEncoder(proto.Options{Engine: engine, Stored: stored})}
}

func (e *ProtoEncoder) Start(w io.Writer) {
	e.out = sink{w: w, buf: e.out.buf[:0]}
	e.message, e.long = e.message[:0], nil
}

func (e *ProtoEncoder) Write(p []byte) (int, error) {
	if e.long == nil && len(e.message)+len(p) > proto.MaxBytes {
		if err := e.begin(); err != nil {
			return 0, err
		}
	}
	if e.long != nil {
		return e.long.Write(p)
	}
	e.message = append(e.message, p...)
	return len(p), nil
}

// longLevel is the zstd level of messages too long for columns, as for whole messages of that length.
const longLevel = 3

// begin switches to a stream.
func (e *ProtoEncoder) begin() (err error) {
	if e.long, err = newZstdEncoder(codec.Setting{Codec: codec.Zstd, Level: longLevel}); err != nil {
		return err
	}
	if _, err := e.out.Write([]byte{proto.FormStream}); err != nil {
		return err
	}
	e.long.Start(&e.out)
	_, err = e.long.Write(e.message)
	return err
}

func (e *ProtoEncoder) Close() error {
	if e.long != nil {
		if err := e.long.Close(); err != nil {
			return err
		}
	} else {
		e.packed = e.Columns.Append(e.packed[:0], e.message)
		if _, err := e.out.Write(e.packed); err != nil {
			return err
		}
	}
	e.out.flush()
	e.out.w, e.long = nil, nil
	if cap(e.message) > keptProtoBytes {
		e.message, e.packed = nil, nil
	}
	return e.out.err
}

// ProtoDecoder is a decoder of cinch-proto. It reads a whole message before it decompresses it, unless that
// is a stream.
type ProtoDecoder struct {
	Columns   *proto.Decoder // also for whole messages, while no stream is being read
	maxWindow int
	maxWhole  int
	src       io.Reader
	in        []byte
	out       []byte
	left      []byte  // rest of out
	long      Decoder // for a stream
	opened    bool
}

// NewProtoDecoder returns a decoder. A stream's window is limited to maxWindow bytes, and a message that Read
// decompresses as a whole to maxWhole bytes: larger ones cause proto.ErrTooLarge.
func NewProtoDecoder(engine *codec.Engine, maxWindow int, maxWhole int64) *ProtoDecoder {
	return &ProtoDecoder{
		Columns: proto.NewDecoder(proto.Options{Engine: engine}), maxWindow: maxWindow, maxWhole: int(min(maxWhole, proto.MaxBytes)),
	}
}

func (d *ProtoDecoder) Start(r io.Reader) { d.src, d.opened = r, false }

func (d *ProtoDecoder) Read(p []byte) (int, error) {
	if !d.opened {
		if err := d.open(); err != nil {
			return 0, err
		}
		d.opened = true
	}
	if d.long != nil {
		return d.long.Read(p)
	}
	if len(d.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.left)
	d.left = d.left[n:]
	return n, nil
}

// maxProtoIn exceeds the compressed length of an incompressible message of proto.MaxBytes.
const maxProtoIn = proto.MaxBytes + proto.MaxBytes>>7

func (d *ProtoDecoder) open() error {
	var form [1]byte
	if _, err := io.ReadFull(d.src, form[:]); err != nil {
		return fmt.Errorf("%w: the form is missing", proto.ErrCorrupt)
	}
	if form[0] == proto.FormStream {
		long, err := newZstdDecoder(d.maxWindow)
		if err != nil {
			return err
		}
		long.Start(d.src)
		d.long = long
		return nil
	}
	buf := bytes.NewBuffer(append(d.in[:0], form[0]))
	_, err := buf.ReadFrom(io.LimitReader(d.src, maxProtoIn))
	d.in = buf.Bytes()
	if err != nil {
		return err
	}
	if len(d.in) > maxProtoIn {
		return fmt.Errorf("%w: longer than any valid message", proto.ErrCorrupt)
	}
	d.out, err = d.Columns.Append(d.out[:0], d.in, d.maxWhole)
	d.left = d.out
	return err
}

func (d *ProtoDecoder) Stop() {
	if d.long != nil {
		d.long.Stop()
	}
	d.src, d.long, d.left = nil, nil, nil
	if cap(d.in) > keptProtoBytes || cap(d.out) > keptProtoBytes {
		d.in, d.out = nil, nil
	}
}
