package http

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
	"github.com/cinch-layer/cinch/internal/policy"
)

// isPairUpgrade reports whether a client requests an upgrade to a connection with history.
func (h *handler) isPairUpgrade(r *http.Request) bool {
	return h.histories != nil && h.cfg.Peers && h.history == nil && r.ProtoMajor == 1 && r.Body == http.NoBody && r.Header.Get("Upgrade") == pairProtocol
}

// servePair upgrades a connection, and serves its requests until it ends.
func (h *handler) servePair(w http.ResponseWriter, r *http.Request) {
	window, ok := parseTerms(r.Header)
	if !ok {
		http.Error(w, "cinch: unknown "+pairHeader+": this gateway knows version "+pairVersion, http.StatusBadRequest)
		return
	}
	carried, err := h.newHistory(window)
	if err != nil {
		h.cfg.Log.Warn("a near gateway gets no history", "client", h.session.memory.Addr, "err", err)
		http.Error(w, "cinch: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer carried.close()
	carried.peerOpens = maxOpenOf(r.Header)
	conn, err := hijack(w, carried.window, h.cfg.MaxOpen)
	if err != nil {
		return
	}
	defer conn.Close()
	h.session.serveCarried(conn, &handler{common: h.common, session: h.session, history: carried})
}

func (h *handler) newHistory(window int) (*history, error) {
	window, cost, err := h.histories.take(window)
	if err != nil {
		return nil, err
	}
	return h.histories.open(window, cost)
}

// hijack takes a connection from its server, and tells the near gateway that it uses pairProtocol from now
// on.
func hijack(w http.ResponseWriter, window, maxOpen int) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n%s: %d\r\n\r\n", pairProtocol, pairHeader, formatTerms(window), openHeader, maxOpen)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil && buffered.Reader.Buffered() > 0 {
		err = errors.New("the near gateway speaks before it is answered")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// decodeCarried decompresses the body of a request that was sent with history, and gives it the coding that a
// rule asks for, or the one that it had.
func (x *exchange) decodeCarried(out *http.Request) {
	b := x.holdRequest(out)
	start := time.Now()
	n := out.ContentLength
	plain, err := b.decodeCarried(x.history.reader, n, x.cfg.MaxOpen)
	if err != nil {
		if errors.Is(err, bodies.ErrCorrupt) {
			x.cfg.Stats.Error("corrupt")
		}
		x.broken = fmt.Errorf("%w: %w", errCarried, err)
		return
	}
	x.history.settle()
	x.cfg.Stats.Opened(codec.Zstd, int(n), len(plain), time.Since(start))
	had, opened := strings.CutPrefix(out.Header.Get(codingHeader), openedMark)
	delete(out.Header, codingHeader)
	setCoding(out.Header, had)
	if !opened {
		x.sendOpened(out, plain, x.lookup(policy.Request, out.Header, int64(len(plain))))
		return
	}
	x.restore(out, plain, had)
}

// restore sends a body that the near gateway has decompressed: in the coding that a rule of this gateway asks
// for, or else in the one that it had.
func (x *exchange) restore(out *http.Request, plain []byte, had string) {
	before := out.Header["Content-Encoding"]
	coded, err := x.recoded(plain, had)
	if err != nil {
		x.broken = fmt.Errorf("%w: %w", errCarried, err)
		return
	}
	n := int64(len(coded))
	ch, ok := x.chooseFor(out, x.lookup(policy.Request, out.Header, n), n)
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
	return x.coder.compress(plain, recoding{setting: codec.Setting{Codec: id}})
}

// carryReply compresses a reply with the history of the connection if a rule covers it. The near gateway
// gives the client the original reply.
func (x *exchange) carryReply(resp *http.Response) {
	n := resp.ContentLength
	if isPeerCoding(resp.Header["Content-Encoding"]) {
		resp.Header[codingHeader] = []string{foreignMark}
		return
	}
	if n <= 0 || n > int64(min(x.cfg.MaxCompress, x.history.peerOpens)) || x.in.Method == http.MethodHead || resp.StatusCode == http.StatusNotModified {
		return
	}
	rule := x.lookup(policy.Reply, resp.Header, n)
	if rule == nil {
		return
	}
	if x.gatherReply(resp, rule) {
		x.writeReply(resp, rule)
	}
}

func (x *exchange) writeReply(resp *http.Response, rule *policy.MessageRule) {
	b, start := x.replyBody, time.Now()
	out, err := x.history.writer.Append(nil, b.received, asColumns(rule, resp.Header))
	if err != nil {
		resp.Body = readCloser{errorReader{err}, resp.Body}
		return
	}
	x.history.settle()
	took := time.Since(start)
	x.cfg.Stats.Sealed(rule.Name, codec.Zstd, len(b.received), len(out), took)
	x.cfg.Stats.Latency(took)
	x.setReply(resp, out)
	delete(resp.Header, codingHeader)
	if had := resp.Header["Content-Encoding"]; len(had) > 0 {
		resp.Header[codingHeader] = []string{strings.Join(had, ", ")}
	}
	setCoding(resp.Header, carriedCoding)
}
