package http

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// streamPiece is the maximum number of bytes of a body of unknown length that are compressed at a time. Fewer are
// compressed if fewer have arrived.
const streamPiece = 32 << 10

// streamBody compresses a body while it is read. The receiver can decompress the bytes of each Read of the
// source without waiting for more.
type streamBody struct {
	src    io.ReadCloser
	to     codec.ContentWriter
	ch     recoding
	log    *slog.Logger
	stats  *gateway.Stats
	effort *gateway.Effort
	free   func() // releases its memory

	piece, out []byte
	at         int // position in out
	raw, sent  int
	took       time.Duration
	err        error

	mu              sync.Mutex
	reading, closed bool
}

// newStream returns a streamBody, or nil if there is no memory for it.
func newStream(c *Config, src io.ReadCloser, ch recoding, account *memory.Account) *streamBody {
	cost := int64(c.Engine.ContentBytes(ch.setting)) + 2*streamPiece
	if !account.TakeSpare(cost) {
		return nil
	}
	w, err := c.Engine.ContentWriter(ch.setting)
	if err != nil {
		account.Release(cost)
		return nil
	}
	return &streamBody{
		src: src, to: w, ch: ch, log: c.Log, stats: c.Stats, effort: c.Effort, free: func() { account.Release(cost) },
		piece: memory.GetBuffer(streamPiece)[:streamPiece],
	}
}

// Read is called by the transport's goroutine, so no handler recovers from a panic in it.
func (s *streamBody) Read(p []byte) (n int, err error) {
	if !s.begin() {
		return 0, errClosed
	}
	defer s.finish()
	defer gateway.CatchPanic(s.log, s.stats, func() {
		s.out, s.at, s.err = nil, 0, gateway.ErrPanicked
		n, err = 0, s.err
	})
	for s.at == len(s.out) {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n = copy(p, s.out[s.at:])
	s.at += n
	s.sent += n
	return n, nil
}

// begin begins a Read. It reports false after a Close.
func (s *streamBody) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = !s.closed
	return s.reading
}

// finish ends a Read, and releases the memory if Close was called during the Read.
func (s *streamBody) finish() {
	s.mu.Lock()
	s.reading = false
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.release()
	}
}

// next reads and compresses the next piece. At the end of the source it ends the compressed content.
func (s *streamBody) next() {
	n, err := s.src.Read(s.piece)
	s.raw += n
	s.out, s.at = s.out[:0], 0
	start := time.Now()
	stint := s.effort.Begin(n)
	defer func() {
		stint.End()
		took := time.Since(start)
		s.effort.RecordLatency(took) // a reader waits for a piece, not for the whole body
		s.took += took
	}()
	var failed error
	if s.out, failed = s.to.Append(s.out, s.piece[:n]); failed != nil {
		s.err = failed
		return
	}
	if err == io.EOF {
		if s.out, failed = s.to.End(s.out); failed != nil {
			err = failed
		}
	}
	s.err = err
}

// Close closes the body and its source. It may be called during a Read.
func (s *streamBody) Close() error {
	s.mu.Lock()
	first, reading := !s.closed, s.reading
	s.closed = true
	s.mu.Unlock()
	if first && !reading {
		s.release()
	}
	return s.src.Close()
}

// release counts the body in the statistics, and releases its memory.
func (s *streamBody) release() {
	s.stats.Sealed(s.ch.rule.Name, s.ch.setting.Codec, s.raw, s.sent, s.took)
	s.stats.Latency(s.took)
	s.to.Close()
	memory.PutBuffer(s.piece)
	s.free()
}
