package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/held"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
)

// wholeBody is a body in memory, of requests or replies, and who pays for it.
type wholeBody struct {
	grant     held.Grant
	gather    held.Gatherer
	received  []byte
	collected bool // all of it came, and its length was not declared

	readers []*bytesBody
	mu      sync.Mutex // guards the readers
	open    int        // readers that are not closed
}

// newWholeBody opens one in an account of a client's, for a body from a peer. Whoever moves too little of it while others
// wait for memory is cut off.
func newWholeBody(ctx context.Context, src io.Reader, from gateway.Peer, of *gateway.Client, ahead chan struct{}, cut func(gateway.Verdict)) *wholeBody {
	b := &wholeBody{}
	b.grant.Ctx, b.grant.Ahead = ctx, ahead
	b.gather = held.Gatherer{Src: src, From: from, Grant: &b.grant}
	b.grant.Account.Open(of, &flow{grant: &b.grant, cut: cut})
	return b
}

// read gets n bytes into memory. It reports false if there is no memory for all of them: then it has the beginning.
func (b *wholeBody) read(n int) (complete bool, err error) {
	if b.received, err = b.gather.Some(n); err != nil || len(b.received) < n {
		return false, err
	}
	return true, noMore(b.gather.Src)
}

// readToEnd gets all there is into memory, if that is so many bytes at most. It reports false if it isn't, or there is no memory: then
// it has the beginning.
func (b *wholeBody) readToEnd(most int) (complete bool, err error) {
	b.received, b.collected, err = b.gather.ToEnd(most)
	return b.collected, err
}

// noMore waits for the end of a body of which all has come: HTTP/2 has that in a frame of its own, with the trailers.
func noMore(src io.Reader) error {
	switch _, err := io.ReadFull(src, make([]byte, 1)); err {
	case io.EOF:
		return nil
	case nil:
		return errors.New("the body is longer than its Content-Length")
	default:
		return err
	}
}

// uncarry reads a body of n bytes that came with history, however long it waits for memory, and opens it.
func (b *wholeBody) uncarry(r *bodies.Reader, n int64, most int) ([]byte, error) {
	if n <= 0 || n > int64(most) {
		return nil, fmt.Errorf("%w: a body of %d bytes", bodies.ErrTooLarge, n)
	}
	var err error
	if b.received, err = b.gather.All(int(n), n); err != nil {
		return nil, err
	}
	return r.Open(b.received, most, b.grant.Exceed)
}

// give returns what gives bytes of the body to a peer, and then what else there is.
func (b *wholeBody) give(p []byte, rest io.Reader, to gateway.Peer) *bytesBody {
	r := &bytesBody{of: b, b: p, rest: rest, to: to}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grant.Account.Await(to)
	b.open++
	b.readers = append(b.readers, r)
	return r
}

// close gives the memory back. Who still reads the body gets no more of it.
func (b *wholeBody) close() {
	for _, r := range b.readers {
		_ = r.Close()
	}
	gateway.PutBuffer(b.received)
	b.received = nil
	b.grant.Release()
	b.grant.Account.Close()
}

// flow is how a body that holds memory moves.
type flow struct {
	grant *held.Grant
	cut   func(gateway.Verdict)
}

func (f *flow) Progress() int64         { return f.grant.Moved.Load() }
func (f *flow) Patience() time.Duration { return gateway.DefaultStall }
func (f *flow) Cut(v gateway.Verdict)   { f.cut(v) }

var errClosed = errors.New("the body is closed")

// bytesBody gives bytes of a body that may be taken away from it: a request's body may be read after all is over.
type bytesBody struct {
	of   *wholeBody
	b    []byte
	rest io.Reader // what follows the bytes; nil: nothing
	to   gateway.Peer
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
	return rest.Read(p)
}

// Complete reports whether nothing follows the bytes; see h2.
func (r *bytesBody) Complete() bool { return r.rest == nil }

// Close lets go of the bytes. The peer is waited for until the last reader of the body is closed: another one may have begun because
// the body is sent once more.
func (r *bytesBody) Close() error {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.gone {
		return nil
	}
	r.gone, r.b = true, nil
	if r.of.open--; r.of.open == 0 {
		r.of.grant.Account.Awaited(r.to)
	}
	return nil
}

// copyBytes is how much of a body is copied at a time.
const copyBytes = 32 << 10

// readCloser reads one thing and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// failing gives an error in place of a body.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// original is a body as the client sent it, for another try.
type original struct {
	body     []byte
	encoding []string // the Content-Encoding field
}
