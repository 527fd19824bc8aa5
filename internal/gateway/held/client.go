package grpc

import (
	"net"
	"net/http"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// memory is that of a client's connection: of its calls, whose messages have an account each,
// and of their metadata.
type memory struct {
	addr              net.Addr // of the client, in logs
	requests, replies *gateway.Client
	metadata          gateway.Account
}

func newMemory(addr net.Addr, requests, replies *gateway.Client) *memory {
	m := &memory{addr: addr, requests: requests, replies: replies}
	m.metadata.Open(requests, nil) // never waited for, so never judged
	return m
}

func (m *memory) close() {
	m.metadata.Close()
	m.requests.Leave()
	m.replies.Leave()
}

// What metadata is held: its bytes stand in HTTP/2's table, in the client's request and in ours.
const (
	freeMetadata   = 4 << 10
	metadataCopies = 2
	metadataEntry  = 64 // bytes of bookkeeping for each
)

// takeMetadata takes what a call's metadata takes as long as the call lasts. Little is free.
func (m *memory) takeMetadata(r *http.Request) (n int64, fits bool) {
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v) + metadataEntry)
		}
	}
	if n *= metadataCopies; n <= freeMetadata {
		return 0, true
	}
	return n, m.metadata.TryAcquire(n)
}
