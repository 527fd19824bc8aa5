package held

import (
	"net"
	"net/http"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Allowance accounts for the memory of a client's connection: that of its calls, whose messages have an
// account each, and of their metadata.
type Allowance struct {
	Addr              net.Addr // for logs
	Requests, Replies *gateway.Client
	Metadata          gateway.Account
}

// NewAllowance returns the allowance of a client's connection. The caller must close it.
func NewAllowance(addr net.Addr, requests, replies *gateway.Client) *Allowance {
	m := &Allowance{Addr: addr, Requests: requests, Replies: replies}
	m.Metadata.Open(requests, nil) // no peer is awaited, so no stall detection
	return m
}

// Close gives all memory back.
func (m *Allowance) Close() {
	m.Metadata.Close()
	m.Requests.Leave()
	m.Replies.Leave()
}

// Memory of metadata: its bytes are in HTTP/2's table, in the client's request and in the gateway's.
const (
	freeMetadata   = 4 << 10
	metadataCopies = 2
	metadataEntry  = 64 // bytes of overhead for each entry
)

// TakeMetadata takes memory for a call's metadata, which the caller must release when the call ends. It
// returns the number of bytes taken, which is 0 for up to freeMetadata, and whether they were available.
func (m *Allowance) TakeMetadata(r *http.Request) (n int64, fits bool) {
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v) + metadataEntry)
		}
	}
	if n *= metadataCopies; n <= freeMetadata {
		return 0, true
	}
	return n, m.Metadata.TryAcquire(n)
}
