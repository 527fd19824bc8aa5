package grpc

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// support says whether a server reads an encoding.
type support int

const (
	unknown support = iota
	yes
	no
)

// knowledge is the state of the server behind one connection. It is dropped with the connection: another one
// may lead to another server, or to the same one after an upgrade. No client's call is ever used to test it.
type knowledge struct {
	given  []string     // encodings from the configuration
	others *presumption // shared by all connections to the upstream

	carried bool // the connection is a link
	laned   bool // it is a link with lanes

	partner *partner // the server as a gateway that takes dictionaries; nil only in tests

	mu       sync.Mutex
	listed   []string        // its grpc-accept-encoding; nil: it has never sent one
	silent   bool            // it has answered without one
	answered map[string]bool // results of inquiry
	refused  map[string]time.Time
	gateway  bool // it is a gateway
}

// newKnowledge returns the state of a server that has not answered any call yet. With carried it is known to
// be a gateway.
func newKnowledge(given []string, carried bool, others *presumption, p *partner) *knowledge {
	k := &knowledge{given: given, others: others, partner: p, carried: carried}
	if carried {
		k.gateway, k.listed = true, slices.Clone(ownNames)
	}
	return k
}

// reads returns whether the server reads an encoding. Its own list takes precedence over results of inquiry.
func (k *knowledge) reads(encoding string) support {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.refused[encoding]; ok && time.Since(at) < refusalTime {
		return no
	}
	said, asked := k.answered[encoding]
	switch {
	case slices.Contains(k.given, encoding), slices.Contains(k.listed, encoding):
		return yes
	case k.listed != nil, asked && !said:
		return no
	case said:
		return yes
	}
	return unknown
}

// learn handles the headers of a response to a call with gatewayToken.
func (k *knowledge) learn(h http.Header) {
	if values := h["Grpc-Accept-Encoding"]; len(values) > 0 {
		k.learnList(values)
		return
	}
	if len(h["Grpc-Status"]) == 0 { // some servers omit their list in trailers-only responses
		k.mu.Lock()
		k.silent = true
		k.mu.Unlock()
	}
}

// learnList handles the values of grpc-accept-encoding.
func (k *knowledge) learnList(values []string) {
	list := splitList(values)
	isGateway := slices.Contains(list, gatewayToken)
	if isGateway && slices.Contains(list, pairEncoding) && k.partner != nil {
		k.partner.listed()
	}
	if isGateway && slices.Contains(list, linkToken) {
		k.others.learnLink()
	}
	list = slices.DeleteFunc(list, isPrivate)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gateway = isGateway
	if slices.Equal(k.listed, list) {
		return
	}
	for _, e := range k.listed { // another server behind the same connection reads this
		if !slices.Contains(list, e) {
			k.refuse(e)
		}
	}
	k.listed = append([]string{}, list...)
}

// learnTrailers handles the trailers of a response, which may contain the list, too. A gateway forwards the
// trailers of its upstream, so its trailers are ignored.
func (k *knowledge) learnTrailers(h http.Header) {
	if values := h["Grpc-Accept-Encoding"]; len(values) > 0 && !k.isGateway() {
		k.learnList(values)
	}
}

// isGateway reports whether the server has announced that it is a gateway.
func (k *knowledge) isGateway() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gateway
}

// isSilent reports whether the server answers without listing what it reads.
func (k *knowledge) isSilent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent && k.listed == nil
}

// learnAnswer records the result of a question.
func (k *knowledge) learnAnswer(encoding string, reads bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answered == nil {
		k.answered = map[string]bool{}
	}
	k.answered[encoding] = reads
}

// learnRefusal records that the server could not read a call's messages.
func (k *knowledge) learnRefusal(encoding string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse(encoding)
	delete(k.answered, encoding) // ask again once the refusal has expired
}

// refuse records that the server could not read an encoding. k.mu must be held.
func (k *knowledge) refuse(encoding string) {
	if k.refused == nil {
		k.refused = map[string]time.Time{}
	}
	k.refused[encoding] = time.Now()
}
