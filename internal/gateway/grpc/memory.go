package grpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// client is the memory of a client's connection: of its calls, whose messages have an account each,
// and of their metadata.
type client struct {
	g                 *Gateway
	addr              net.Addr // in logs
	requests, replies *gateway.Client
	metadata          gateway.Account
}

func (g *Gateway) newClient(addr, payer net.Addr) *client {
	c := &client{g: g, addr: addr, requests: g.requests.Client(payer), replies: g.replies.Client(payer)}
	c.metadata.Open(c.requests, nil) // never waited for, so never judged
	return c
}

func (c *client) close() {
	c.metadata.Close()
	c.requests.Leave()
	c.replies.Leave()
}

// What metadata is held: its bytes stand in HTTP/2's table, in the client's request and in ours.
const (
	freeMetadata   = 4 << 10
	metadataCopies = 2
	metadataEntry  = 64 // bytes of bookkeeping for each
)

// takeMetadata takes what a call's metadata takes as long as the call lasts. Little is free.
func (c *client) takeMetadata(r *http.Request) (n int64, fits bool) {
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v) + metadataEntry)
		}
	}
	if n *= metadataCopies; n <= freeMetadata {
		return 0, true
	}
	return n, c.metadata.TryAcquire(n)
}

// refuse answers a call for whose metadata there is no memory.
func (c *client) refuse(w http.ResponseWriter, r *http.Request) {
	c.g.cfg.Stats.Error("metadata")
	if !isGRPC(r.Header) {
		http.Error(w, "cinch: "+errMetadata.Error(), http.StatusServiceUnavailable)
		return
	}
	ending{code: codeResourceExhausted, message: errMetadata.Error()}.fail(w, false)
}

var (
	errMetadata = errors.New("no memory is free for the metadata of this call (memory.budget)")
	errSlow     = errors.New("the call moved too little while others waited for the memory that its message holds")
)

// flow is how the messages of a call move in one direction.
type flow struct {
	grant  *grant
	call   *call
	cancel context.CancelFunc // of the attempt
}

func (f *flow) Progress() int64 { return f.grant.moved.Load() }

func (f *flow) Patience() time.Duration { return gateway.DefaultStall }

// Cut ends the call.
func (f *flow) Cut(v gateway.Verdict) {
	gateway.LogCut(f.call.g.cfg.Log, f.call.g.cfg.Stats, f.call.from.addr, v)
	f.call.slow.Store(true)
	f.cancel()
	f.call.interrupt()
}
