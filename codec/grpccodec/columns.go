package grpccodec

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec/internal/frame"
	"github.com/cinch-layer/cinch/codec/proto"
)

// newEngine returns the engine that compresses columns. It has no limit of its own: callers already hold one
// of the set's turns.
func newEngine(zstd codec.ZstdCoder, n int) *codec.Engine {
	if zstd == nil {
		return proto.NewEngine(n)
	}
	return codec.New(codec.Options{Zstd: zstd, MaxInFlight: n})
}

func (s *Set) newEncoder(setting codec.Setting) (frame.Encoder, error) {
	if setting.Codec == codec.Proto {
		return s.newProtoEncoder(setting), nil
	}
	return frame.NewEncoder(setting)
}

func (s *Set) newProtoEncoder(setting codec.Setting) *frame.ProtoEncoder {
	return frame.NewProtoEncoder(s.engine(), setting.Level == codec.Stored)
}

func (s *Set) newDecoder(id codec.ID) (frame.Decoder, error) {
	if id == codec.Proto {
		return frame.NewProtoDecoder(s.engine(), s.maxWindow, s.limit()), nil
	}
	return frame.NewDecoder(id, s.maxWindow)
}

// appendProto compresses a whole message.
func (s *Set) appendProto(dst, src []byte, k kind) (out []byte, err error) {
	turn := s.encoding.take()
	defer s.encoding.give(turn)
	defer func() {
		if v := recover(); v != nil { // the state is dropped
			out, err = dst, fmt.Errorf("grpccodec: %s: panic: %v", codec.Proto, v)
		}
	}()
	e, ok := k.pool.take()
	if !ok {
		e = s.newProtoEncoder(k.setting)
	}
	out = e.(*frame.ProtoEncoder).Columns.Append(dst, src)
	k.pool.put(e)
	return out, nil
}

// appendUnproto decompresses a whole message.
func (s *Set) appendUnproto(dst, src []byte, maxSize int, pool *idle[frame.Decoder]) ([]byte, error) {
	out, err := s.openColumns(dst, src, maxSize, pool)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, proto.ErrStream):
		return s.AppendDecompress(dst, src[1:], codec.Zstd.String(), maxSize)
	case errors.Is(err, proto.ErrTooLarge):
		return dst, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return dst, fmt.Errorf("%w: %s: %w", ErrCorrupt, codec.Proto, err)
}

func (s *Set) openColumns(dst, src []byte, maxSize int, pool *idle[frame.Decoder]) (out []byte, err error) {
	turn := s.decoding.take()
	defer s.decoding.give(turn)
	defer func() {
		if v := recover(); v != nil {
			out, err = dst, fmt.Errorf("panic: %v", v)
		}
	}()
	d, ok := pool.take()
	if !ok {
		d = frame.NewProtoDecoder(s.engine(), s.maxWindow, s.limit())
	}
	out, err = d.(*frame.ProtoDecoder).Columns.Append(dst, src, maxSize)
	pool.put(d)
	return out, err
}
