package http

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// carry sends a request to the far gateway with history, if a peer connection is free once the body has been
// read. So a client that sends slowly, or breaks off, blocks no peer connection.
func (x *exchange) carry(out *http.Request, rule *policy.MessageRule) {
	if !x.gatherRequest(out, rule) {
		return
	}
	x.sample(out)
	x.peerConn = x.peerConns.take()
	if x.peerConn != nil && len(x.requestBody.received) > x.peerConn.peerOpens {
		x.returnPeerConn(true)
	}
	if x.peerConn == nil {
		x.sendOpened(out, x.requestBody.received, rule)
		return
	}
	x.carryBody(out, rule)
}

// canCarry reports whether a request may use a connection with history: its length is known, it has no
// trailers and no upgrade, and it expects no stream.
func (x *exchange) canCarry(out *http.Request) bool {
	h, n := out.Header, out.ContentLength
	return x.peerConns != nil && n >= 0 && n <= int64(x.cfg.MaxCompress) && len(out.Trailer)+len(h["Upgrade"]) == 0 &&
		!isStream(h.Get("Accept")) && !isPeerCoding(h["Content-Encoding"]) && !x.steppedDown()
}

// steppedDown reports whether the gateway's budgets leave no time for compressing.
func (x *exchange) steppedDown() bool {
	s := codec.Setting{Codec: codec.Zstd, Level: x.cfg.LinkLevel}
	return x.cfg.Effort.LowerWithin(s).Codec == codec.Raw
}

// carryBody compresses a body in memory with the history of its peer connection.
func (x *exchange) carryBody(out *http.Request, rule *policy.MessageRule) {
	b := x.requestBody
	x.originalBody = &originalBody{body: b.received, encoding: out.Header["Content-Encoding"]}
	delete(out.Header, codingHeader) // this field is only for gateways
	plain, coding := x.openForPeer(out)
	start := time.Now()
	stint := x.cfg.Effort.Begin(len(plain))
	packed, err := x.peerConn.writer.Append(nil, plain, asColumns(rule, out.Header))
	stint.End()
	x.peerConn.settle()
	took := time.Since(start)
	x.cfg.Stats.Latency(took)
	if err != nil {
		x.dropPeerConn()
		x.setBody(out, b.received)
		return
	}
	x.cfg.Stats.Sealed(rule.Name, codec.Zstd, len(b.received), len(packed), took)
	x.setBody(out, packed)
	setCoding(out.Header, carriedCoding)
	if coding != "" {
		out.Header[codingHeader] = []string{coding}
	}
}

// openForPeer decompresses a body whose coding the gateway reads, unless it is signed, or longer than the far
// gateway would decompress. It returns the coding that the far gateway has to restore.
func (x *exchange) openForPeer(out *http.Request) (plain []byte, coding string) {
	b := x.requestBody
	coding = strings.Join(out.Header["Content-Encoding"], ", ")
	from, known := codingOf(out.Header)
	if known && from != "" && !mustNotChange(out.Header) {
		if plain, err := x.coder.open(b.received, from, &b.grant); err == nil && len(plain) <= x.peerConn.peerOpens {
			return plain, openedMark + from
		}
	}
	return b.received, coding
}

// asColumns reports whether a body is split into columns as a message of Protocol Buffers. Other bodies would
// come out unchanged.
func asColumns(rule *policy.MessageRule, h http.Header) bool {
	return rule.Setting.Codec != codec.Raw && rule.Setting.IsProto() || rule.Auto && strings.Contains(h.Get("Content-Type"), "protobuf")
}

// sendCarried sends a request over its peer connection. If that has ended it sends the original request
// without history instead.
func (x *exchange) sendCarried(s resender, out *http.Request) (*http.Response, error) {
	c := x.peerConn
	target := *out.URL
	target.Scheme = "http" // the connection is encrypted already, if it has to be
	carried := out.WithContext(out.Context())
	carried.URL = &target
	resp, err := c.transport.RoundTrip(carried)
	if err != nil {
		x.dropPeerConn()
		if errors.Is(err, errOver) {
			return s.sendPlain(x, x.originalRequest(out))
		}
		return nil, err
	}
	return x.receiveCarried(resp)
}

// receiveCarried decompresses the body of a reply that came over a peer connection, and gives the peer
// connection back when it is free.
func (x *exchange) receiveCarried(resp *http.Response) (*http.Response, error) {
	delete(resp.Header, pairHeader)
	foreign := resp.Header.Get(codingHeader) == foreignMark
	if foreign {
		delete(resp.Header, codingHeader)
	}
	if codings := resp.Header["Content-Encoding"]; foreign || len(codings) != 1 || codings[0] != carriedCoding {
		closes := resp.Close
		resp.Body = &trackedBody{ReadCloser: resp.Body, done: func(complete bool) { x.returnPeerConn(complete && !closes) }}
		return resp, nil
	}
	err := x.openReply(resp)
	x.peerConn.settle()
	x.returnPeerConn(err == nil && !resp.Close)
	if err != nil {
		return nil, fmt.Errorf("a reply of the far gateway: %w", err)
	}
	return resp, nil
}

func (x *exchange) openReply(resp *http.Response) error {
	b := x.holdReply(resp)
	body, err := b.decodeCarried(x.peerConn.reader, resp.ContentLength, x.cfg.MaxOpen)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	setCoding(resp.Header, resp.Header.Get(codingHeader))
	delete(resp.Header, codingHeader)
	x.setReply(resp, body)
	return nil
}
