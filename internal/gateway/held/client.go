package held

import (
	"net"
	"net/http"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Allowance is what a client's connection holds: its calls, whose messages have an account each,
// and their metadata.
type Allowance struct {
	Addr              net.Addr // in logs
	Requests, Replies *gateway.Client
	Metadata          gateway.Account
}

// NewAllowance opens what a client's connection holds, until Close.
func NewAllowance(addr net.Addr, requests, replies *gateway.Client) *Allowance {
	m := &Allowance{Addr: addr, Requests: requests, Replies: replies}
	m.Metadata.Open(requests, nil) // never waited for, so never judged
	return m
}

// Close gives everything back.
func (m *Allowance) Close() {
	m.Metadata.Close()
	m.Requests.Leave()
	m.Replies.Leave()
}

// What metadata is held: its bytes stand in HTTP/2's table, in the client's request and in ours.
const (
	freeMetadata   = 4 << 10
	metadataCopies = 2
	metadataEntry  = 64 // bytes of bookkeeping for each
)

// TakeMetadata takes what a call's metadata takes as long as the call lasts. Little is free.
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
