package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// wholeBody is the body of a request or reply in memory, with the grant that pays for the memory.
type wholeBody struct {
	grant     memory.Grant
	gather    memory.Gatherer
	received  []byte
	collected bool // all of it was read, and its length was not declared

	readers []*bytesBody
	mu      sync.Mutex // guards the readers, and the end
	open    int        // readers that are not closed
	closing bool       // the memory is released with the last reader
}

// newWholeBody returns a wholeBody with an account of a client, for a body from a peer. A peer that moves too
// little of it while others wait for memory is cut off.
func newWholeBody(ctx context.Context, src io.Reader, from memory.Peer, of *memory.Client, ahead chan struct{}, cut func(memory.StallReason)) *wholeBody {
	b := &wholeBody{}
	b.grant.Ctx, b.grant.Ahead = ctx, ahead
	b.gather = memory.Gatherer{Src: src, From: from, Grant: &b.grant}
	b.grant.Account.Open(of, &flow{grant: &b.grant, cut: cut})
	return b
}

// read reads n bytes into memory. It reports false if there is no memory for all of them; then received has
// the beginning.
func (b *wholeBody) read(n int) (complete bool, err error) {
	if b.received, err = b.gather.ReadAvailable(n); err != nil || len(b.received) < n {
		return false, err
	}
	return true, expectEOF(b.gather.Src)
}

// readToEnd reads the whole body into memory, if it is shorter than most bytes. It reports false if it is not, or
// there is no memory; then received has the beginning.
func (b *wholeBody) readToEnd(most int) (complete bool, err error) {
	b.received, b.collected, err = b.gather.ReadToEOF(most)
	return b.collected, err
}

// expectEOF waits for the end of a body after its last byte. HTTP/2 sends that in a separate frame, with the
// trailers.
func expectEOF(src io.Reader) error {
	switch _, err := io.ReadFull(src, make([]byte, 1)); err {
	case io.EOF:
		return nil
	case nil:
		return errors.New("the body is longer than its Content-Length")
	default:
		return err
	}
}

// readAll reads a body of n bytes into memory, waiting for memory as long as necessary. A body that is longer than
// most, or whose length is unknown (-1), is an error.
func (b *wholeBody) readAll(n, most int64) (err error) {
	if n < 0 || n > most {
		return fmt.Errorf("%w: a body of %d bytes", grpccodec.ErrTooLarge, n)
	}
	if b.received, err = b.gather.ReadAll(int(n), n); err != nil {
		return err
	}
	return expectEOF(b.gather.Src)
}

// newReader returns a reader for the peer to. It reads p, which are bytes of the body, and then rest, if that is not
// nil. Its Close closes rest, too.
func (b *wholeBody) newReader(p []byte, rest io.ReadCloser, to memory.Peer) *bytesBody {
	r := &bytesBody{of: b, b: p, rest: rest, to: to}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grant.Account.Await(to)
	b.open++
	b.readers = append(b.readers, r)
	return r
}

// closeWhenRead releases the memory as soon as nothing reads the body any more. The caller must not use the body after
// it.
func (b *wholeBody) closeWhenRead() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing = true; b.open == 0 {
		b.free()
	}
}

// close releases the memory. Pending reads of the body return an error.
func (b *wholeBody) close() {
	for _, r := range b.readers {
		_ = r.Close()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free()
}

// free releases the memory. It may be called again. b.mu must be held.
func (b *wholeBody) free() {
	memory.PutBuffer(b.received)
	b.received = nil
	b.grant.Release()
	b.grant.Account.Close()
}

// flow reports the progress of a body that holds memory.
type flow struct {
	grant *memory.Grant
	cut   func(memory.StallReason)
}

func (f *flow) Progress() int64          { return f.grant.Moved.Load() }
func (f *flow) Patience() time.Duration  { return gateway.DefaultStall }
func (f *flow) Cut(v memory.StallReason) { f.cut(v) }

var errClosed = errors.New("the body is closed")

// bytesBody reads bytes of a wholeBody, which may be released meanwhile: net/http may read the body of a
// request after the end of the exchange.
type bytesBody struct {
	of   *wholeBody
	b    []byte
	rest io.ReadCloser // read after the bytes; nil: nothing
	to   memory.Peer
	gone bool
}

func (r *bytesBody) Read(p []byte) (int, error) {
	r.of.mu.Lock()
	if r.gone {
		r.of.mu.Unlock()
		return 0, errClosed
	}
	if len(r.b) > 0 {
		defer r.of.mu.Unlock()
		n := copy(p, r.b)
		r.b = r.b[n:]
		r.of.grant.Moved.Add(int64(n))
		return n, nil
	}
	rest := r.rest
	r.of.mu.Unlock()
	if rest == nil {
		return 0, io.EOF
	}
	n, err := rest.Read(p)
	r.of.grant.Moved.Add(int64(n))
	return n, err
}

// Complete reports whether all of the body is in memory; see package http2.
func (r *bytesBody) Complete() bool { return r.rest == nil }

// Close releases the bytes, and closes the rest. The account waits for the peer until the last reader of the body is
// closed: there may be a second one if the body is sent again.
func (r *bytesBody) Close() error {
	if r.rest != nil {
		defer r.rest.Close()
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.gone {
		return nil
	}
	r.gone, r.b = true, nil
	if r.of.open--; r.of.open == 0 {
		if r.of.grant.Account.Awaited(r.to); r.of.closing {
			r.of.free()
		}
	}
	return nil
}

// copyBytes is the number of bytes of a body that are copied at a time.
const copyBytes = 32 << 10

// readCloser combines a Reader with a Closer.
type readCloser struct {
	io.Reader
	io.Closer
}

// errorReader returns an error in place of a body.
type errorReader struct{ err error }

func (f errorReader) Read([]byte) (int, error) { return 0, f.err }

// originalBody is a body as the client sent it, for sending it again.
type originalBody struct {
	body     []byte
	encoding []string // the Content-Encoding field
}
