package http

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/policy"
)

// farHop is the use of a link to the far gateway by an exchange.
type farHop struct {
	conn      *linkConn  // nil: the exchange uses no link
	slot      http2.Slot // its place on the link
	out       *lanes.Out // lane of the request; nil: none
	in        *lanes.In  // lane of the reply; nil: the request has not been sent
	opened    int64      // messages in lanes of the request that the far gateway reports as decompressed; -1: not reported
	replyRead bool       // the reply was read to its end
}

// takeLink takes a link to the far gateway for a request, if there is one. It does not wait. It is for requests
// without a body, and for bodies that a rule covers: others must not enter the history. Upgraded connections don't use
// links, and neither do bodies that name the coding of gateways.
func (x *exchange) takeLink(out *http.Request) {
	h := out.Header
	if !x.mayTakeLink() || len(h["Upgrade"]) > 0 || isPeerCoding(h["Content-Encoding"]) || x.cfg.Effort.IsSteppedDown() {
		return
	}
	x.toFar.slot.Client = x.linkClient
	if x.toFar.conn = x.links.take(&x.toFar.slot); x.toFar.conn != nil {
		deletePeerFields(h)
	}
}

// mayTakeLink reports whether there may be a link to the far gateway. There is none until a gateway has announced that
// it accepts links.
func (x *exchange) mayTakeLink() bool { return x.links != nil && x.links.far.WasAnnounced() }

// releaseLink ends the use of the link. The sessions of its lanes continue with the next exchange if the messages sent
// in them were decompressed.
func (x *exchange) releaseLink() {
	f := &x.toFar
	if f.conn == nil {
		return
	}
	f.out.Done(f.opened)
	f.in.Done(f.replyRead)
	x.links.Release(&f.slot)
	*f = farHop{}
}

// linkBody prepares a body that a rule covers for the link. A body that is in memory and whose coding the gateway
// reads is sent without its coding, which the far gateway restores; messages of Protocol Buffers go in a lane. Other
// bodies pass unchanged.
func (x *exchange) linkBody(out *http.Request, rule *policy.MessageRule) {
	n := out.ContentLength
	if n < 0 || n > int64(x.cfg.MaxCompress) || len(x.in.Trailer) > 0 || !x.gatherRequest(out, rule) {
		return
	}
	x.sample(out)
	x.linkReceived(out, x.requestBody.received, rule)
}

// linkReceived is linkBody for a body in memory.
func (x *exchange) linkReceived(out *http.Request, received []byte, rule *policy.MessageRule) {
	x.originalBody = &originalBody{body: received, encoding: out.Header["Content-Encoding"]}
	body, from, opened := received, "", false
	if !mustNotChange(out.Header) {
		body, from, opened = x.openForPeer(out.Header, received)
	}
	if opened {
		setCoding(out.Header, "")
		out.Header[codingHeader] = []string{openedMark + from}
	}
	plain := opened || len(x.originalBody.encoding) == 0
	if plain && asColumns(rule, out.Header) && len(body) <= x.toFar.conn.maxOpen() {
		x.toFar.out = x.toFar.conn.lanes.Writers.Request()
		if packed, err := x.appendToLane(x.toFar.out, body); err == nil {
			body = packed
			setCoding(out.Header, lanesCoding)
		}
	}
	x.setBody(out, body)
}

// openForPeer decompresses a body whose coding the gateway reads, unless it is longer than the far gateway would
// decompress. It returns the coding that the far gateway has to restore.
func (x *exchange) openForPeer(h http.Header, received []byte) (plain []byte, from string, opened bool) {
	from, known := codingOf(h)
	if !known || from == "" {
		return received, "", false
	}
	plain, err := x.coder.open(received, from, &x.requestBody.grant)
	if err != nil || len(plain) == 0 || len(plain) > x.toFar.conn.maxOpen() {
		return received, "", false
	}
	return plain, from, true
}

// asColumns reports whether a body goes in a lane as a message of Protocol Buffers. A lane would leave other bodies
// unchanged.
func asColumns(rule *policy.MessageRule, h http.Header) bool {
	return rule.Setting.Codec != codec.Raw && rule.Setting.IsProto() || rule.Auto && strings.Contains(h.Get("Content-Type"), "protobuf")
}

// sendOverLink sends a request over its link. If the far gateway has not seen it, it goes without the link instead.
func (x *exchange) sendOverLink(s resender, out *http.Request) (*http.Response, error) {
	f := &x.toFar
	f.in, f.opened = f.conn.lanes.Readers.Reply(), -1
	out.Header[linkHeader] = []string{formatTerms(x.cfg.MaxOpen)}
	if text := f.in.Header(); text != "" {
		out.Header[lanes.Header] = []string{text}
	}
	sending, err := http2.NewSending(out, nil)
	if err != nil {
		return nil, err
	}
	sending.Client, sending.Widen = f.slot.Client, x.widen
	resp, err := f.conn.Conn.Send(&sending)
	if err == nil {
		return x.receiveFromLink(resp)
	}
	var again *http.Request
	switch {
	case x.originalBody == nil && err == http2.ErrUnusable: // nothing was sent, and sending has what was read of the body
		again = sending.Request()
	case err == http2.ErrUnusable, http2.IsUnprocessed(err), errors.Is(err, http2.ErrHeaderSize), canRepeat(out) && out.Context().Err() == nil:
		if err == http2.ErrUnusable {
			sending.Close()
		}
		again = x.fromMemory(out)
	}
	if again == nil {
		return nil, err
	}
	deletePeerFields(again.Header)
	x.releaseLink()
	return s.sendPlain(x, again)
}

// fromMemory returns a request with its body as the client sent it, from its beginning, or nil if the body is not in
// memory.
func (x *exchange) fromMemory(out *http.Request) *http.Request {
	if x.originalBody != nil || out.Body == nil || out.Body == http.NoBody {
		return x.originalRequest(out)
	}
	return nil
}

// receiveFromLink reads and removes the fields of a reply that are for this gateway, and decompresses a body that came
// in a lane.
func (x *exchange) receiveFromLink(resp *http.Response) (*http.Response, error) {
	f, h := &x.toFar, resp.Header
	f.out.Told(h[lanes.Header])
	if values := h[lanes.OpenedHeader]; len(values) == 1 {
		f.opened = lanes.ParseOpened(values[0])
	}
	if maxOpen, ok := parseTerms(h.Get(linkHeader)); ok {
		f.conn.opens.Store(int64(maxOpen))
		x.links.far.announced(maxOpen)
	}
	foreign := h.Get(codingHeader) == foreignMark
	deletePeerFields(h)
	codings := h["Content-Encoding"]
	if foreign || len(codings) != 1 || codings[0] != lanesCoding {
		resp.Body = &trackedBody{ReadCloser: resp.Body, done: func(complete bool) { f.replyRead = complete }}
		return resp, nil
	}
	b := x.holdReply(resp)
	body, err := x.readLaned(b, f.in, resp.ContentLength)
	_ = resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("a reply of the far gateway: %w", err)
	}
	f.replyRead = true
	setCoding(h, "")
	x.setReply(resp, body)
	return resp, nil
}
