package grpc

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
)

// unlanedBody is the body of a client's request whose messages come in lanes, with them opened: plain, and marked where the client's own
// client had compressed them. It lies below the tape, since what is in a lane can be opened only once.
type unlanedBody struct {
	guarded
	in *lanes.In
}

// clientBody returns the request's body as the call's attempts are to read it. It takes the lanes out of the call's terms.
func (c *call) clientBody() io.Reader {
	if c.terms.from != lanes.Encoding {
		return c.r.Body
	}
	b := &unlanedBody{in: c.terms.lanes.ends.Readers.Request()}
	p := plan{from: lanes.Encoding, marked: c.terms.original != "", marks: c.terms.original, in: b.in}
	w := newRewriter(c.r.Context(), c.r.Body, p, false, c.opener, c.compressor)
	w.grant.Account.Open(c.memory.Requests, &flow{grant: &w.grant, call: c, cancel: c.cancelAttempt})
	b.rewriter, c.unlaned = w, b
	c.terms.from = ""
	delete(c.r.Header, "Grpc-Encoding")
	return b
}

func (b *unlanedBody) Read(p []byte) (int, error) {
	if !b.begin() {
		return 0, errReplaced
	}
	defer b.end()
	return b.rewriter.Read(p)
}

// close frees what it holds, at the end of a read if there is one.
func (b *unlanedBody) close() {
	if b != nil {
		b.guarded.close()
	}
}

// tell adds to headers how many messages were opened; the name gets a prefix.
func (b *unlanedBody) tell(h http.Header, prefix string) {
	if b == nil {
		return
	}
	if n := b.in.Opened(); n > 0 {
		h[prefix+lanes.OpenedHeader] = []string{strconv.FormatInt(n, 10)}
	}
}

func (b *unlanedBody) spent() time.Duration {
	if b == nil {
		return 0
	}
	return b.guarded.spent()
}
