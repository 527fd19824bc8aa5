package http

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/policy"
)

// nearHop is the link on which an exchange came from a near gateway.
type nearHop struct {
	ends     *lanes.Ends    // lanes of the link; nil: the client is no gateway
	out      *lanes.Out     // lane of the reply; nil: none
	in       *lanes.In      // lanes of the request
	assigned lanes.Assigned // the lane of the reply, as the request declares it
	opens    int            // the longest body that the near gateway decompresses, in bytes
	reply    bodyMarker     // of the exchange
}

// bodyMarker marks the body of a reply, so that it is kept out of the link's history.
type bodyMarker interface{ MarkBody(bool) }

// serveLink makes a client's connection a link, and serves the requests on it.
func (s *session) serveLink(ahead []byte) {
	c, err := s.handler.endpoint.Accept(s.client, ahead)
	if err != nil {
		return
	}
	ends := lanes.OfLink(c, s.handler.lanes)
	if ends == nil {
		s.handler.endpoint.Disconnected("link refused: the near gateway has another version of Cinch", s.client, errNoLanes)
		_ = c.Close()
		return
	}
	defer ends.Close()
	h := &handler{common: s.handler.common, session: s, ends: ends}
	s.serveHTTP2(http2.KeepSecrets(c.(http2.SecretConn)), nil, h, linkIdle+time.Minute) // the near gateway ends it first
}

// meetPeer reads and removes the fields of a request over a link that are for this gateway, before anything else
// handles the request.
func (x *exchange) meetPeer(r *http.Request, ends *lanes.Ends, w http.ResponseWriter) {
	f := &x.fromNear
	f.ends, f.in, f.reply = ends, ends.Readers.Request(), w.(bodyMarker)
	f.reply.MarkBody(true) // until a rule covers the reply
	f.assigned = ends.Writers.Assigned(r.Header.Get(lanes.Header))
	f.opens, _ = parseTerms(r.Header.Get(linkHeader))
	coding := r.Header[codingHeader]
	deletePeerFields(r.Header)
	if len(coding) == 1 && strings.HasPrefix(coding[0], openedMark) {
		r.Header[codingHeader] = coding // decodeFromLink removes it
	}
}

// isPeerBody reports whether the body of a request over a link must be changed back to what the near gateway's client
// sent.
func isPeerBody(h http.Header) bool {
	return strings.HasPrefix(h.Get(codingHeader), openedMark) || h.Get("Content-Encoding") == lanesCoding
}

// errFromLink is returned for a body of a near gateway that can't be changed back.
var errFromLink = errors.New("the body from the near gateway can't be decompressed")

// decodeFromLink changes a body back to what the near gateway's client sent, and gives it the coding that a rule of
// this gateway asks for, or the one that it had.
func (x *exchange) decodeFromLink(out *http.Request) {
	b := x.holdRequest(out)
	var plain []byte
	var err error
	if out.Header.Get("Content-Encoding") == lanesCoding {
		plain, err = x.readLaned(b, x.fromNear.in, out.ContentLength)
		setCoding(out.Header, "")
	} else {
		err = b.readAll(out.ContentLength, int64(x.cfg.MaxOpen))
		plain = b.received
	}
	if err != nil {
		x.broken = fmt.Errorf("%w: %w", errFromLink, err)
		return
	}
	had, opened := strings.CutPrefix(out.Header.Get(codingHeader), openedMark)
	delete(out.Header, codingHeader)
	if !opened {
		rule := x.lookup(policy.Request, out.Header, int64(len(plain)))
		if !x.passOn(out, plain, rule) {
			x.sendOpened(out, plain, rule)
		}
		return
	}
	setCoding(out.Header, had)
	x.restore(out, plain, had)
}

// passOn sends a body that a near gateway has sent, and that a rule covers, over a link to the next gateway. It reports
// false if there is none.
func (x *exchange) passOn(out *http.Request, body []byte, rule *policy.MessageRule) bool {
	if rule == nil {
		return false
	}
	if x.takeLink(out); x.toFar.conn == nil {
		return false
	}
	x.linkReceived(out, body, rule)
	return true
}

// restore sends a body that the near gateway has decompressed: in the coding that a rule of this gateway asks
// for, or else in the one that it had.
func (x *exchange) restore(out *http.Request, plain []byte, had string) {
	before := out.Header["Content-Encoding"]
	coded, err := x.recoded(plain, had)
	if err != nil {
		x.broken = fmt.Errorf("%w: %w", errFromLink, err)
		return
	}
	n := int64(len(coded))
	rule := x.lookup(policy.Request, out.Header, n)
	if x.passOn(out, coded, rule) {
		return
	}
	ch, ok := x.chooseFor(out, rule, n)
	if ok {
		ch.from = ""
		packed, _ := x.coder.recode(plain, ch, &x.requestBody.grant)
		if packed != nil && ch.rule.SavesEnough(len(coded), len(packed)) {
			x.originalBody, x.sentCoding = &originalBody{body: coded, encoding: before}, ch.to
			x.setBody(out, packed)
			setCoding(out.Header, ch.to)
			return
		}
	}
	x.setBody(out, coded)
}

// recoded compresses a body with the coding that it had.
func (x *exchange) recoded(plain []byte, had string) ([]byte, error) {
	id, err := codec.ParseID(had)
	if err != nil || bitOf(had) == 0 {
		return nil, fmt.Errorf("unknown coding %q", had)
	}
	if err := x.requestBody.grant.AcquireBeyond(int64(len(plain))); err != nil {
		return nil, err
	}
	defer x.cfg.Effort.Begin(len(plain)).End()
	return x.coder.compress(plain, recoding{setting: codec.Setting{Codec: id}})
}

// linkReply prepares a reply for a link. Messages of Protocol Buffers that a rule covers go in a lane, and the link
// compresses others that a rule covers.
func (x *exchange) linkReply(resp *http.Response) {
	h := resp.Header
	deletePeerFields(h)
	foreign := isPeerCoding(h["Content-Encoding"])
	if foreign {
		h[codingHeader] = []string{foreignMark}
	}
	n := resp.ContentLength
	rule := x.lookup(policy.Reply, h, n)
	if rule == nil {
		return
	}
	x.fromNear.reply.MarkBody(false)
	if foreign || n <= 0 || n > int64(min(x.cfg.MaxCompress, x.fromNear.opens)) || len(h["Content-Encoding"]) > 0 || x.in.Method == http.MethodHead || resp.StatusCode == http.StatusNotModified || resp.StatusCode == http.StatusNoContent || len(resp.Trailer) > 0 {
		return
	}
	if !asColumns(rule, h) || !x.gatherReply(resp, rule) {
		return
	}
	x.fromNear.out = x.fromNear.ends.Writers.Reply(x.fromNear.assigned)
	body := x.replyBody.received
	if packed, err := x.appendToLane(x.fromNear.out, body); err == nil {
		body = packed
		h["Content-Encoding"] = []string{lanesCoding}
	}
	x.setReply(resp, body)
}

// tellPeer sets the fields for the near gateway in the header of a reply over a link.
func (x *exchange) tellPeer(h http.Header) {
	h[linkHeader] = []string{formatTerms(x.cfg.MaxOpen)}
	if rooms := x.fromNear.ends.Readers.Rooms(); rooms != "" {
		h[lanes.Header] = []string{rooms}
	}
	if n := x.fromNear.in.Opened(); n > 0 {
		h[lanes.OpenedHeader] = []string{fmt.Sprint(n)}
	}
}

// appendToLane returns a body as a message of Protocol Buffers, in a lane if there is one. If the message is a part of
// the lane's session, it must be sent or the lane given up.
func (x *exchange) appendToLane(lane *lanes.Out, body []byte) ([]byte, error) {
	began, stint := time.Now(), x.cfg.Effort.Begin(len(body))
	defer stint.End()
	out, inLane := lane.Append(nil, body)
	if !inLane {
		var err error
		if out, err = x.cfg.Codecs.AppendSetting(out, body, codec.Setting{Codec: codec.Proto}); err != nil {
			return nil, err
		}
	}
	took := time.Since(began)
	x.cfg.Effort.RecordLatency(took)
	x.cfg.Stats.Latency(took)
	return out, nil
}

// maxLaned returns the maximum length of a message in a lane that decompresses to at most body bytes.
func maxLaned(body int) int64 { return int64(body) + int64(body)/64 + 1024 }

// readLaned reads a body of n bytes (-1: unknown) that is a message in a lane, waiting for memory as long as necessary,
// and decompresses it.
func (x *exchange) readLaned(b *wholeBody, lane *lanes.In, n int64) ([]byte, error) {
	if err := b.readAll(n, maxLaned(x.cfg.MaxOpen)); err != nil {
		return nil, err
	}
	began := time.Now()
	m, err := lanes.Parse(b.received)
	if err != nil {
		return nil, err
	}
	var out []byte
	if m.Alone {
		// Hold memory for the decompressed body, in addition to that for the received one.
		taken := 0
		out, err = x.coder.decompress(m.Body, codec.Proto.String(), func(limit int) error {
			more := int64(limit - taken)
			taken = limit
			return b.grant.AcquireBeyond(more)
		})
		if err == nil {
			lane.OpenedAlone(m, len(out))
		}
	} else {
		raw := m.RawLen()
		if raw > x.cfg.MaxOpen {
			return nil, lanes.ErrTooLarge
		}
		if err = b.grant.AcquireBeyond(int64(raw)); err == nil {
			out, err = lane.Open(nil, m, raw)
		}
	}
	if err != nil {
		return nil, err
	}
	x.cfg.Stats.Opened(codec.Proto, len(b.received), len(out), time.Since(began))
	return out, nil
}
