package grpc

import (
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
