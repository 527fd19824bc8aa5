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

// carry sends a request to the far gateway with history, if a carrier is free once the body has been read. So
// a client that sends slowly, or breaks off, blocks no carrier.
func (x *trip) carry(out *http.Request, rule *policy.MessageRule) {
	if !x.gatherRequest(out, rule) {
		return
	}
	x.sample(out)
	x.carrier = x.carriers.take()
	if x.carrier != nil && len(x.requestBody.received) > x.carrier.peerOpens {
		x.giveBack(true)
	}
	if x.carrier == nil {
		x.sendOpened(out, x.requestBody.received, rule)
		return
	}
	x.carryBody(out, rule)
}

// mayBeCarried reports whether a request may use a connection with history: its length is known, it has no
// trailers and no upgrade, and it expects no stream.
func (x *trip) mayBeCarried(out *http.Request) bool {
	h, n := out.Header, out.ContentLength
	return x.carriers != nil && n >= 0 && n <= int64(x.cfg.MaxCompress) && len(out.Trailer)+len(h["Upgrade"]) == 0 &&
		!isStream(h.Get("Accept")) && !isOurs(h["Content-Encoding"]) && !x.steppedDown()
}

// steppedDown reports whether the gateway's budgets leave no time for compressing.
func (x *trip) steppedDown() bool {
	s := codec.Setting{Codec: codec.Zstd, Level: x.cfg.LinkLevel}
	return x.cfg.Effort.LowerWithin(s).Codec == codec.Raw
}

// carryBody compresses a body in memory with the history of its carrier.
func (x *trip) carryBody(out *http.Request, rule *policy.MessageRule) {
	b := x.requestBody
	x.originalBody = &original{body: b.received, encoding: out.Header["Content-Encoding"]}
	delete(out.Header, codingHeader) // this field is only for gateways
	plain, coding := x.openForCarrier(out)
	start := time.Now()
	stint := x.cfg.Effort.Begin(len(plain))
	packed, err := x.carrier.writer.Append(nil, plain, asColumns(rule, out.Header))
	stint.End()
	x.carrier.settle()
	took := time.Since(start)
	x.cfg.Stats.Latency(took)
	if err != nil {
		x.dropCarrier()
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

// openForCarrier decompresses a body whose coding the gateway reads, unless it is signed, or longer than the far
// gateway would decompress. It returns the coding that the far gateway has to restore.
func (x *trip) openForCarrier(out *http.Request) (plain []byte, coding string) {
	b := x.requestBody
	coding = strings.Join(out.Header["Content-Encoding"], ", ")
	from, known := codingOf(out.Header)
	if known && from != "" && !mustStay(out.Header) {
		if plain, err := x.coder.open(b.received, from, &b.grant); err == nil && len(plain) <= x.carrier.peerOpens {
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

// sendCarried sends a request over its carrier. If the carrier's connection has ended it sends the original
// request without history instead.
func (x *trip) sendCarried(s resender, out *http.Request) (*http.Response, error) {
	c := x.carrier
	target := *out.URL
	target.Scheme = "http" // the connection is encrypted already, if it has to be
	carried := out.WithContext(out.Context())
	carried.URL = &target
	resp, err := c.transport.RoundTrip(carried)
	if err != nil {
		x.dropCarrier()
		if errors.Is(err, errOver) {
			return s.plain(x, x.asItCame(out))
		}
		return nil, err
	}
	return x.received(resp)
}

// received decompresses the body of a reply that came over a carrier, and gives the carrier back when it is
// free.
func (x *trip) received(resp *http.Response) (*http.Response, error) {
	delete(resp.Header, pairHeader)
	foreign := resp.Header.Get(codingHeader) == foreignMark
	if foreign {
		delete(resp.Header, codingHeader)
	}
	if codings := resp.Header["Content-Encoding"]; foreign || len(codings) != 1 || codings[0] != carriedCoding {
		closes := resp.Close
		resp.Body = &until{ReadCloser: resp.Body, done: func(complete bool) { x.giveBack(complete && !closes) }}
		return resp, nil
	}
	err := x.openReply(resp)
	x.carrier.settle()
	x.giveBack(err == nil && !resp.Close)
	if err != nil {
		return nil, fmt.Errorf("a reply of the far gateway: %w", err)
	}
	return resp, nil
}

func (x *trip) openReply(resp *http.Response) error {
	b := x.holdReply(resp)
	body, err := b.uncarry(x.carrier.reader, resp.ContentLength, x.cfg.MaxOpen)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	setCoding(resp.Header, resp.Header.Get(codingHeader))
	delete(resp.Header, codingHeader)
	x.setReply(resp, body)
	return nil
}
