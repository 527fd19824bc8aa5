package tarantool

import (
	"fmt"
	"io"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// maxFrame is the longest frame, in bytes, that the gateway accepts from either side.
const maxFrame = 512 << 20

var errTooLarge = fmt.Errorf("%w: over %d bytes", wire.ErrTooLarge, maxFrame)

// frame is one frame, unchanged. Its bytes are valid until the next one is read.
type frame struct {
	bytes  []byte // including the length prefix
	prefix int    // size of the length prefix in bytes
}

// body returns the frame without its length prefix.
func (f *frame) body() []byte { return f.bytes[f.prefix:] }

// reader cuts one connection into frames. It belongs to one pump.
type reader struct {
	gateway.Inbound
	rewrites bool // frames are rewritten, which takes rewriteRoom more memory
}

// next reads one frame. The previous frame must not be used any more. An EOF or os.ErrDeadlineExceeded between two
// frames leaves the reader unchanged.
func (r *reader) next() (f frame, err error) {
	r.Release()
	n, prefix, err := wire.Prefix(r.Unread())
	for ; prefix == 0 && err == nil; n, prefix, err = wire.Prefix(r.Unread()) {
		if err = r.Fill(len(r.Unread()) + 1); err != nil {
			break
		}
	}
	switch {
	case err != nil:
		return f, err
	case n > maxFrame:
		return f, fmt.Errorf("%w: %d", errTooLarge, n)
	}
	cost := n
	if r.rewrites {
		cost += rewriteRoom(n)
	}
	if err := r.Expect(prefix+n, cost); err != nil {
		return f, err
	}
	if err := r.ReadWhole(prefix + n); err != nil {
		return f, err
	}
	return frame{bytes: r.Take(prefix + n), prefix: prefix}, nil
}

// raw reads exactly n bytes outside of frames.
func (r *reader) raw(n int) ([]byte, error) {
	r.Release()
	if err := r.Fill(n); err != nil {
		return nil, err
	}
	return r.Take(n), nil
}

// takeBuffered returns the bytes that have been read already, and leaves the reader empty.
func (r *reader) takeBuffered() []byte {
	r.Release()
	return r.Take(len(r.Unread()))
}

// sink writes frames to a connection. It gathers small ones until its owner has nothing more to add at once.
// An idle sink holds no buffer. Several goroutines may write: frames stay whole.
type sink struct {
	conn    io.Writer
	peer    memory.Peer     // the peer at the other end of conn
	account *memory.Account // account that holds the memory of the frames

	mu  sync.Mutex
	buf []byte
}

// bufferBytes is the size in bytes up to which frames are gathered.
const bufferBytes = 16 << 10

// write adds a frame, which the next flush writes at the latest. It does not keep frame.
func (s *sink) write(frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf)+len(frame) > bufferBytes {
		if err := s.flushLocked(); err != nil {
			return err
		}
	}
	if len(frame) >= bufferBytes {
		return s.account.Send(s.conn, s.peer, frame)
	}
	if s.buf == nil {
		s.buf = memory.GetBuffer(bufferBytes)
	}
	s.buf = append(s.buf, frame...)
	return nil
}

func (s *sink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushLocked()
}

// send writes a frame and flushes.
func (s *sink) send(frame []byte) error {
	if err := s.write(frame); err != nil {
		return err
	}
	return s.flush()
}

func (s *sink) flushLocked() error {
	if s.buf == nil {
		return nil
	}
	err := s.account.Send(s.conn, s.peer, s.buf)
	memory.PutBuffer(s.buf)
	s.buf = nil
	return err
}
