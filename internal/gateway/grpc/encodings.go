package grpc

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// identity is how headers name the lack of an encoding; here it is "".
const identity = "identity"

// gatewayToken in a request's grpc-accept-encoding tells a gateway that its client is one
// too, and is passed on to no one else. Such a client is told in the response's
// grpc-accept-encoding what it may send: first what the upstream reads by its own word, then
// the token, then what we open. Others are not told, and the gateway that asked takes it off
// again from the token on: applications would see a header that the upstream did not send.
const gatewayToken = "cinch"

// originalHeader tells the next gateway the encoding of a call's client, where messages have
// another by now. Those that the client had compressed are marked in their flag then, so that
// the server gets each as it was sent.
const originalHeader = "Cinch-Original-Encoding"

// ownNames are the encodings that we read and write.
var ownNames = grpccodec.Names()

// isPrivate reports whether a name in grpc-accept-encoding is for gateways only.
func isPrivate(name string) bool {
	return name == gatewayToken || name == pairEncoding || name == linkToken
}

// canOpen reports whether we can read messages of that encoding.
func canOpen(encoding string) bool { return slices.Contains(ownNames, encoding) }

// canonical turns the value of grpc-encoding into what we use.
func canonical(encoding string) string {
	if encoding == identity {
		return ""
	}
	return encoding
}

// splitList reads the values of grpc-accept-encoding.
func splitList(values []string) []string {
	var names []string
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// encodingOf returns the encoding's name of a setting, "" for raw.
func encodingOf(s codec.Setting) string {
	if s.Codec == codec.Raw {
		return ""
	}
	return s.Codec.String()
}

// answer is whether a peer reads an encoding.
type answer int

const (
	unknown answer = iota
	yes
	no
	presumed // other connections found that it does
)

// refusalTime is how long a connection's refusal of an encoding counts, whatever it says
// later: behind one connection there may be several servers, new and old.
const refusalTime = time.Minute

// knowledge is what is known of the server behind one connection. It lives as long as the
// connection: another one may lead to another server, or to the same one upgraded.
type knowledge struct {
	given  []string     // by the configuration
	others *presumption // shared by the connections to the upstream

	carried bool // over a link

	partner *partner // the server, if it is a gateway that takes dictionaries; never nil but in tests

	mu      sync.Mutex
	listed  []string // in its grpc-accept-encoding; nil: it never sent one
	proved  []string // it took a message
	refused map[string]time.Time
	trial   bool // a call is finding out
	gateway bool // it is a gateway

	longs    int // calls that were begun again
	lastLong time.Time
}

// reads tells whether the server reads an encoding.
func (k *knowledge) reads(encoding string) answer {
	if encoding == "" {
		return yes
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if at, ok := k.refused[encoding]; ok && time.Since(at) < refusalTime {
		return no
	}
	switch {
	case slices.Contains(k.given, encoding), slices.Contains(k.proved, encoding), slices.Contains(k.listed, encoding):
		return yes
	case k.listed != nil:
		return no
	case k.others.reads(encoding):
		return presumed
	}
	return unknown
}

// learnList takes the values of a response's grpc-accept-encoding.
func (k *knowledge) learnList(values []string) {
	if len(values) == 0 {
		return
	}
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
	if !slices.Equal(k.listed, list) {
		k.listed = append([]string{}, list...)
	}
	k.others.learn(list...)
}

// isGateway reports whether the server has said that it is a gateway.
func (k *knowledge) isGateway() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gateway
}

// learnProof says that the server read a message.
func (k *knowledge) learnProof(encoding string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.proved, encoding) {
		k.proved = append(k.proved, encoding)
	}
	delete(k.refused, encoding)
	k.others.learn(encoding)
}

// learnRefusal says that the server could not.
func (k *knowledge) learnRefusal(encoding string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refused == nil {
		k.refused = map[string]time.Time{}
	}
	k.refused[encoding] = time.Now()
	k.proved = slices.DeleteFunc(k.proved, func(s string) bool { return s == encoding })
	k.others.forget(encoding)
}

// A call that turns out to be long is begun again, which its server sees: after so many no call risks that but one in
// so much time. Short ones among them can still find out what the server reads.
const (
	freeLongs = 8
	longPause = time.Second
)

// learnLong says that a call was begun again because its first message was long.
func (k *knowledge) learnLong() {
	k.mu.Lock()
	k.longs, k.lastLong = k.longs+1, time.Now()
	k.mu.Unlock()
}

// expectsLong reports whether a call should be taken for a long one before anything of it is there.
func (k *knowledge) expectsLong() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.longs >= freeLongs && time.Since(k.lastLong) < longPause
}

// beginTrial reserves the right to find something out, for one call at a time.
func (k *knowledge) beginTrial() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trial {
		return false
	}
	k.trial = true
	return true
}

func (k *knowledge) endTrial() {
	k.mu.Lock()
	k.trial = false
	k.mu.Unlock()
}

// saysNotInstalled reports whether a response of nothing but a status means that the
// server does not know the encoding. The call is sent again then, so an application's own
// error that speaks of compression must not be taken for it: all servers name the encoding
// (C did not always), and INTERNAL counts only in the words of those who say that.
func saysNotInstalled(code, message, encoding string) bool {
	message = strings.ToLower(message)
	switch code {
	case "12": // UNIMPLEMENTED: Go, Java, Node, .NET, Rust, C
		named := strings.Contains(message, encoding)
		return named && (strings.Contains(message, "compress") || strings.Contains(message, "encoding")) ||
			strings.HasPrefix(message, "invalid compression algorithm value")
	case "13": // INTERNAL: older Go and Java
		return strings.Contains(message, "decompressor is not installed for grpc-encoding") ||
			strings.Contains(message, "can't find decompressor for "+encoding)
	}
	return false
}
