package grpc

import (
	"net/http"
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

// support is whether a peer reads an encoding.
type support int

const (
	unknown support = iota
	yes
	no
)

// refusalTime is how long a connection's refusal of an encoding counts, whatever it says
// later: behind one connection there may be several servers, new and old.
const refusalTime = time.Minute

// knowledge is what is known of the server behind one connection. It lives as long as the
// connection: another one may lead to another server, or to the same one upgraded. No client's
// call is ever used to find something out.
type knowledge struct {
	given  []string     // by the configuration
	others *presumption // shared by the connections to the upstream

	carried bool // over a link

	partner *partner // the server, if it is a gateway that takes dictionaries; never nil but in tests

	mu       sync.Mutex
	listed   []string        // in its grpc-accept-encoding; nil: it never sent one
	silent   bool            // it answered without one
	answered map[string]bool // what it said to our questions, see inquiry
	refused  map[string]time.Time
	gateway  bool // it is a gateway
}

// reads tells whether the server reads an encoding. Its own list counts for more than answers to questions.
func (k *knowledge) reads(encoding string) support {
	if encoding == "" {
		return yes
	}
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

// saysNotInstalled reports whether a response of nothing but a status means that the
// server does not know the encoding. The call is sent again then, so an application's own
// error that speaks of compression must not be taken for it: only the very words of
// implementations count.
func saysNotInstalled(code, message, encoding string) bool {
	message = strings.TrimPrefix(strings.ToLower(message), "grpc: ")
	says := func(beginnings ...string) bool {
		return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(message, b) })
	}
	switch code {
	case "12", "13": // INTERNAL in older versions
		if says(`decompressor is not installed for grpc-encoding "`+encoding+`"`, "can't find decompressor for "+encoding) { // Go, Java
			return true
		}
	default:
		return false
	}
	if code == "13" {
		return message == "error parsing 'grpc-encoding' metadata" // newer C
	}
	return says(
		`received message compressed with unsupported encoding "`+encoding+`"`, // Node
		"unsupported grpc-encoding value '"+encoding+"'",                       // .NET
		"content is compressed with `"+encoding+"` which",                      // Rust
		"compression algorithm '"+encoding+"' is disabled",                     // C
		"invalid compression algorithm value",                                  // older C
		`unknown compression "`+encoding+`"`,                                   // connect
		"cinch: unknown grpc-encoding "+encoding,                               // a gateway without peers
	)
}

// seemsToRefuse is for calls of the gateway's own, which nobody has executed: what speaks of an encoding, and names it, refuses it.
func seemsToRefuse(code, message, encoding string) bool {
	if saysNotInstalled(code, message, encoding) {
		return true
	}
	message = strings.ToLower(message)
	return (code == "12" || code == "13") && strings.Contains(message, encoding) &&
		(strings.Contains(message, "compress") || strings.Contains(message, "encoding"))
}
