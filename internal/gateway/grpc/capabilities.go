package grpc

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
)

// support says whether a server reads an encoding.
type support int

const (
	unknown support = iota
	yes
	no
)

// serverCapabilities is the state of the server behind one connection. It is dropped with the connection:
// another one may lead to another server, or to the same one after an upgrade. No client's call is ever used
// to test it.
type serverCapabilities struct {
	configured  []string      // encodings from the configuration
	linkSupport *link.Support // shared by all connections to the upstream

	isLink bool // the connection is a link
	laned  bool // it is a link with lanes

	mu      sync.Mutex
	listed  []string        // its grpc-accept-encoding; nil: it has never sent one
	silent  bool            // it has answered without one
	probed  map[string]bool // results of encodingProbe
	refused map[string]time.Time
	gateway bool // it is a gateway
}

// newServerCapabilities returns the state of a server that has not answered any call yet. If carried, the connection
// is a link, so the server is a gateway.
func newServerCapabilities(given []string, carried bool, others *link.Support) *serverCapabilities {
	k := &serverCapabilities{configured: given, linkSupport: others, isLink: carried}
	if carried {
		k.gateway, k.listed = true, slices.Clone(ownNames)
	}
	return k
}

// reads returns whether the server reads an encoding. Its own list takes precedence over results of
// encodingProbe.
func (k *serverCapabilities) reads(encoding string) support {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.refused[encoding]; ok && time.Since(at) < refusalTime {
		return no
	}
	said, asked := k.probed[encoding]
	switch {
	case slices.Contains(k.configured, encoding), slices.Contains(k.listed, encoding):
		return yes
	case k.listed != nil, asked && !said:
		return no
	case said:
		return yes
	}
	return unknown
}

// recordHeaders handles the headers of a response to a call with gatewayToken.
func (k *serverCapabilities) recordHeaders(h http.Header) {
	if values := h["Grpc-Accept-Encoding"]; len(values) > 0 {
		k.recordList(values)
		return
	}
	if len(h["Grpc-Status"]) == 0 { // some servers omit their list in trailers-only responses
		k.mu.Lock()
		k.silent = true
		k.mu.Unlock()
	}
}

// recordList handles the values of grpc-accept-encoding.
func (k *serverCapabilities) recordList(values []string) {
	list := splitList(values)
	isGateway := slices.Contains(list, gatewayToken)
	if isGateway && slices.Contains(list, linkToken) {
		k.linkSupport.Announced()
	}
	list = slices.DeleteFunc(list, isPrivate)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gateway = isGateway
	if slices.Equal(k.listed, list) {
		return
	}
	for _, e := range k.listed { // several servers share this connection, and not all of them read e
		if !slices.Contains(list, e) {
			k.markRefused(e)
		}
	}
	k.listed = append([]string{}, list...)
}

// recordTrailers handles the trailers of a response, which may contain the list, too. A gateway forwards the
// trailers of its upstream, so its trailers are ignored.
func (k *serverCapabilities) recordTrailers(h http.Header) {
	if values := h["Grpc-Accept-Encoding"]; len(values) > 0 && !k.isGateway() {
		k.recordList(values)
	}
}

// isGateway reports whether the server has announced that it is a gateway.
func (k *serverCapabilities) isGateway() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gateway
}

// isSilent reports whether the server answers without listing what it reads.
func (k *serverCapabilities) isSilent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent && k.listed == nil
}

// recordProbe records the result of a question.
func (k *serverCapabilities) recordProbe(encoding string, reads bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.probed == nil {
		k.probed = map[string]bool{}
	}
	k.probed[encoding] = reads
}

// recordRefusal records that the server could not read a call's messages.
func (k *serverCapabilities) recordRefusal(encoding string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.markRefused(encoding)
	delete(k.probed, encoding) // ask again once the refusal has expired
}

// markRefused records that the server could not read an encoding. k.mu must be held.
func (k *serverCapabilities) markRefused(encoding string) {
	if k.refused == nil {
		k.refused = map[string]time.Time{}
	}
	k.refused[encoding] = time.Now()
}
