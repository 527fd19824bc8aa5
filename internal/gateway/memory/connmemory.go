package memory

import (
	"net"
	"net/http"
)

// ConnMemory accounts for the memory of a client's connection on which calls run at the same time. The messages of
// each call have an account of their own, opened for Requests or Replies; the metadata of all calls share one.
type ConnMemory struct {
	Addr              net.Addr // for logs
	Requests, Replies *Client
	Metadata          Account
}

// NewConnMemory returns the memory account of a client's connection. The caller must close it.
func NewConnMemory(addr net.Addr, requests, replies *Client) *ConnMemory {
	m := &ConnMemory{Addr: addr, Requests: requests, Replies: replies}
	m.Metadata.Open(requests, nil) // no peer is awaited, so no stall detection
	return m
}

// Close gives all memory back.
func (m *ConnMemory) Close() {
	m.Metadata.Close()
	m.Requests.Leave()
	m.Replies.Leave()
}

// Memory of metadata, which is held in HTTP/2's header table, in the client's request and in the gateway's.
const (
	freeMetadata   = 4 << 10 // bytes of a call's metadata that are not counted
	metadataCopies = 2
	metadataEntry  = 64 // bytes of overhead for each entry
)

// TakeMetadata takes memory for a call's metadata, which the caller must release when the call ends. It
// returns the number of bytes taken, which is 0 for up to freeMetadata, and whether they were available.
func (m *ConnMemory) TakeMetadata(r *http.Request) (n int64, fits bool) {
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
