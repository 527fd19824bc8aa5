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

// takeLink takes a link to the far gateway for a request, if one is open. If none is, one is opened for later requests.
// It is for requests without a body, and for bodies that a rule covers: others must not enter the history. Upgraded connections don't use links, and neither do bodies that name a coding of gateways.
func (x *exchange) takeLink(out *http.Request) {
	h := out.Header
	if x.links == nil || len(h["Upgrade"]) > 0 || isPeerCoding(h["Content-Encoding"]) || x.steppedDown() {
		return
	}
	if x.link = x.links.take(x.in.Context(), &x.linkSlot); x.link != nil {
		deletePeerFields(h)
	}
}

// steppedDown reports whether the gateway's budgets leave no time for compressing.
func (x *exchange) steppedDown() bool {
	return x.cfg.Effort.LowerWithin(codec.Setting{Codec: codec.Zstd, Level: 3}).Codec == codec.Raw
}

// releaseLink ends the use of the link. The next exchange continues with the lanes if what was sent in them was decompressed.
func (x *exchange) releaseLink() {
	if x.link == nil {
		return
	}
	x.laneOut.Done(x.opened)
	x.laneIn.Done(x.replyRead)
	x.links.Release(&x.linkSlot)
	x.link, x.laneOut, x.laneIn = nil, nil, nil
}

// linkBody prepares a body that a rule covers for the link. A body that is in memory and whose coding the gateway reads is sent
// without it, and the far gateway restores the coding; messages of Protocol Buffers go in a lane. Others pass unchanged.
func (x *exchange) linkBody(out *http.Request, rule *policy.MessageRule) {
	n := out.ContentLength
	if n < 0 || n > int64(x.cfg.MaxCompress) || len(x.in.Trailer) > 0 || !x.gatherRequest(out, rule) {
		return
	}
	x.sample(out)
	b := x.requestBody
	x.originalBody = &originalBody{body: b.received, encoding: out.Header["Content-Encoding"]}
	body, from, opened := b.received, "", false
	if !mustNotChange(out.Header) {
		body, from, opened = x.openForPeer(out)
	}
	if opened {
		setCoding(out.Header, "")
		out.Header[codingHeader] = []string{openedMark + from}
	}
	if asColumns(rule, out.Header) && (opened || len(x.originalBody.encoding) == 0) {
		x.laneOut = x.link.lanes.Writers.Request()
		packed, err := x.appendToLane(x.laneOut, body)
		if err == nil {
			body = packed
			setCoding(out.Header, lanesCoding)
		}
	}
	x.setBody(out, body)
}

// openForPeer decompresses a body whose coding the gateway reads, unless it is longer than the far gateway would decompress. It
// returns the coding that the far gateway has to restore.
func (x *exchange) openForPeer(out *http.Request) (plain []byte, from string, opened bool) {
	b := x.requestBody
	from, known := codingOf(out.Header)
	if !known || from == "" {
		return b.received, "", false
	}
	plain, err := x.coder.open(b.received, from, &b.grant)
	if err != nil || len(plain) > x.links.far.maxOpen() {
		return b.received, "", false
	}
	return plain, from, true
}

// asColumns reports whether a body goes in a lane as a message of Protocol Buffers. Others would come out unchanged.
func asColumns(rule *policy.MessageRule, h http.Header) bool {
	return rule.Setting.Codec != codec.Raw && rule.Setting.IsProto() || rule.Auto && strings.Contains(h.Get("Content-Type"), "protobuf")
}

// sendOverLink sends a request over its link. If the far gateway has not seen it, it goes without the link instead.
func (x *exchange) sendOverLink(s resender, out *http.Request) (*http.Response, error) {
	x.laneIn = x.link.lanes.Readers.Reply()
	x.opened = -1
	out.Header[linkHeader] = []string{formatTerms(x.cfg.MaxOpen)}
	if text := x.laneIn.Header(); text != "" {
		out.Header[lanes.Header] = []string{text}
	}
	sending, err := http2.NewSending(out, nil)
	if err != nil {
		return nil, err
	}
	sending.Client, sending.Widen = x.linkSlot.Client, x.widen
	resp, err := x.link.Conn.Send(&sending)
	if err == nil {
		return x.receiveFromLink(resp)
	}
	untouched := errors.Is(err, http2.ErrUnusable)
	if untouched || http2.IsUnprocessed(err) {
		again, ok := x.withoutLink(out, untouched)
		if ok {
			x.releaseLink()
			return s.sendPlain(x, again)
		}
	}
	sending.Close()
	return nil, err
}

// withoutLink returns a request as it goes without a link. It reports false if a part of its body has been read that can't be
// read again.
func (x *exchange) withoutLink(out *http.Request, untouched bool) (*http.Request, bool) {
	again := x.originalRequest(out)
	deletePeerFields(again.Header)
	switch {
	case x.requestBody != nil && again.GetBody != nil:
		body, err := again.GetBody()
		again.Body = body
		return again, err == nil
	case again.Body == nil || again.Body == http.NoBody:
		return again, true
	}
	return again, untouched
}

// receiveFromLink takes from a reply what is for this gateway, and decompresses a body that came in a lane.
func (x *exchange) receiveFromLink(resp *http.Response) (*http.Response, error) {
	h := resp.Header
	x.laneOut.Told(h[lanes.Header])
	if values := h[lanes.OpenedHeader]; len(values) == 1 {
		x.opened = lanes.ParseOpened(values[0])
	}
	if maxOpen, ok := parseTerms(h.Get(linkHeader)); ok {
		x.links.far.announced(maxOpen)
	}
	foreign := h.Get(codingHeader) == foreignMark
	deletePeerFields(h)
	codings := h["Content-Encoding"]
	if foreign || len(codings) != 1 || codings[0] != lanesCoding {
		resp.Body = &trackedBody{ReadCloser: resp.Body, done: func(complete bool) { x.replyRead = complete }}
		return resp, nil
	}
	b := x.holdReply(resp)
	body, err := x.readLaned(b, x.laneIn, resp.ContentLength)
	_ = resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("a reply of the far gateway: %w", err)
	}
	x.replyRead = true
	setCoding(h, "")
	x.setReply(resp, body)
	return resp, nil
}
