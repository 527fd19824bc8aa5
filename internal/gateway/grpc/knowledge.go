package grpc

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// support is whether a peer reads an encoding.
type support int

const (
	unknown support = iota
	yes
	no
)

// knowledge is what is known of the server behind one connection. It lives as long as the
// connection: another one may lead to another server, or to the same one upgraded. No client's
// call is ever used to find something out.
type knowledge struct {
	given  []string     // by the configuration
	others *presumption // shared by the connections to the upstream

	carried bool // over a link
	laned   bool // which has lanes

	partner *partner // the server, if it is a gateway that takes dictionaries; never nil but in tests

	mu       sync.Mutex
	listed   []string        // in its grpc-accept-encoding; nil: it never sent one
	silent   bool            // it answered without one
	answered map[string]bool // what it said to our questions, see inquiry
	refused  map[string]time.Time
	gateway  bool // it is a gateway
}

// newKnowledge is what is known of a server that nobody has spoken to, except to make a link.
func newKnowledge(given []string, carried bool, others *presumption, p *partner) *knowledge {
	k := &knowledge{given: given, others: others, partner: p, carried: carried}
	if carried {
		k.gateway, k.listed = true, slices.Clone(ownNames)
	}
	return k
}

// reads tells whether the server reads an encoding. Its own list counts for more than answers to questions.
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

// learn takes the headers of a response to a call that carried our token.
func (k *knowledge) learn(h http.Header) {
	if values := h["Grpc-Accept-Encoding"]; len(values) > 0 {
		k.learnList(values)
		return
	}
	if len(h["Grpc-Status"]) == 0 { // servers that list do not always do it beside a status alone
		k.mu.Lock()
		k.silent = true
		k.mu.Unlock()
	}
}

// learnList takes the values of grpc-accept-encoding.
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
	for _, e := range k.listed { // another server behind the same connection said that it reads this
		if !slices.Contains(list, e) {
			k.refuse(e)
		}
	}
	k.listed = append([]string{}, list...)
}

// learnTrailers takes those of a response, where a server may say it too. A gateway hands on those of its upstream.
func (k *knowledge) learnTrailers(h http.Header) {
	if values := h["Grpc-Accept-Encoding"]; len(values) > 0 && !k.isGateway() {
		k.learnList(values)
	}
}

// isGateway reports whether the server has said that it is a gateway.
func (k *knowledge) isGateway() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gateway
}

// isSilent reports whether the server answers without saying what it reads.
func (k *knowledge) isSilent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent && k.listed == nil
}

// learnAnswer takes the server's answer to our own question.
func (k *knowledge) learnAnswer(encoding string, reads bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answered == nil {
		k.answered = map[string]bool{}
	}
	k.answered[encoding] = reads
}

// learnRefusal says that the server could not read a call's messages.
func (k *knowledge) learnRefusal(encoding string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse(encoding)
	delete(k.answered, encoding) // after a while it is asked again
}

// refuse is learnRefusal where k.mu is held.
func (k *knowledge) refuse(encoding string) {
	if k.refused == nil {
		k.refused = map[string]time.Time{}
	}
	k.refused[encoding] = time.Now()
}
