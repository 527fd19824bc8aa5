package grpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// encodingProbe finds out which encodings a server reads. Most servers list them, in grpc-accept-encoding of every
// response that has a message. For servers that don't, such as grpc-go's, the gateway finds out by calls of its own,
// which can't be mistaken for a client's. It never tests with a client's call: servers answer an unknown encoding in
// many ways, and one (C++ 1.51) passes the compressed bytes to the application as if they were the message.
//
//	greeting  health check, plain        servers with a list send it here, also gateways; others are silent
//	control   health check, cinch-probe  does it check the encoding first? Only if it refuses do its next answers count
//	question  health check, zstd         refused as the control was: it does not read zstd; otherwise it does
//
// grpc-go checks a call's encoding only if it knows the method. For a server without a health service, the control and
// the questions go to one of its methods that clients call with one message. Their only message is cut off after its
// first byte, so that there is nothing the server could execute: the gateway looks like a client that has died.
//
// The results apply to one connection. Another connection may lead to another server.
type encodingProbe struct {
	ask           func(ctx context.Context, c gatewayCall) (*gatewayReply, error)
	capabilities  *serverCapabilities
	codecs        *grpccodec.Set
	alive         context.Context
	onUnavailable func() // reports that the server can't be asked
	faults        http2.Faults

	probeWait time.Duration // how long a client's call waits for a result

	mu        sync.Mutex
	encodings []string      // encodings that calls would use
	authority string        // of a client's call, for balancers that check it
	single    string        // a method that clients call with one message; "": none is known
	running   chan struct{} // closed when the running calls end; nil: none run
	began     time.Time
	notBefore time.Time // pause after a failure

	greeted  bool
	goServer bool // its status looks like grpc-go's without a health service
	// wantsSingle is set while the method of a call with one message is needed: goServer is set and single is
	// empty.
	wantsSingle atomic.Bool
	without     int             // responses since goServer was set while single was empty
	control     map[string]bool // by method: whether the server checks the encoding first
}

const (
	healthPath       = "/grpc.health.v1.Health/Check"
	controlName      = "cinch-probe" // an encoding that does not exist
	probeTimeout     = 3 * time.Second
	probePause       = time.Minute // after a failure
	defaultProbeWait = 250 * time.Millisecond
	maxProbeReply    = 4 << 10
	maxWithoutMethod = 20 // responses until the log says that the server can't be asked
)

// healthRequest is a HealthCheckRequest for the whole server. Its field 15 is unknown to all servers, and
// gives the message something to compress.
var healthRequest = append([]byte{15<<3 | 2, 32}, "cinch asks, cinch asks, cinch ask"[:32]...)

// cutOffMessage is the frame of a compressed message of 64 bytes, cut off after the first.
var cutOffMessage = append(wire.AppendHeader(nil, true, 64), 0)

// addEncodings adds encodings that calls would use, and starts to find out whether the server reads them.
func (q *encodingProbe) addEncodings(encodings []string, authority string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.authority == "" {
		q.authority = authority
	}
	for _, e := range encodings {
		if !slices.Contains(q.encodings, e) {
			q.encodings = append(q.encodings, e)
		}
	}
	q.begin()
}

// onResponse continues the probe after a response, which may have brought new information. single is the method of a
// call that consisted of one message, or "".
func (q *encodingProbe) onResponse(single string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.single == "" {
		q.single = single
		q.wantsSingle.Store(q.goServer && single == "")
	}
	if q.goServer && q.single == "" {
		if q.without++; q.without == maxWithoutMethod {
			q.onUnavailable()
		}
	}
	q.begin()
}

// await waits until the gateway's running calls end, but at most until probeWait after they began, because a client's
// call is waiting. It does not wait once one of the gateway's calls has failed.
func (q *encodingProbe) await(ctx context.Context) {
	q.mu.Lock()
	running, left, hope := q.running, q.probeWait-time.Since(q.began), q.notBefore.IsZero()
	q.mu.Unlock()
	if running == nil || left <= 0 || !hope {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-running:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin starts run if there is something to ask. q.mu must be held.
func (q *encodingProbe) begin() {
	if q.running != nil || q.next() == nil {
		return
	}
	q.running, q.began = make(chan struct{}), time.Now()
	go q.run()
}

// run asks until there is nothing more to ask, or a call fails.
func (q *encodingProbe) run() {
	ctx, cancel := context.WithTimeout(q.alive, probeTimeout)
	defer cancel()
	defer gateway.CatchPanic(q.faults.Log, q.faults.Stats, q.pause)
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() {
		close(q.running)
		q.running = nil
	}()
	for step := q.next(); step != nil; step = q.next() {
		conclude, err := q.runStep(ctx, step)
		if err != nil {
			q.notBefore = time.Now().Add(probePause)
			break
		}
		conclude()
	}
}

// runStep runs a step with q.mu released. q.mu must be held, and is held again on return.
func (q *encodingProbe) runStep(ctx context.Context, s step) (conclude func(), err error) {
	q.mu.Unlock()
	defer q.mu.Lock()
	return s(ctx)
}

// pause suspends questions for a while, after a panic.
func (q *encodingProbe) pause() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notBefore = time.Now().Add(probePause)
}

// step makes one of the gateway's calls. The returned conclude records the result, and must be called with q.mu held.
type step func(ctx context.Context) (conclude func(), err error)

// next returns the next step, or nil for none. q.mu must be held.
func (q *encodingProbe) next() step {
	if len(q.encodings) == 0 || time.Now().Before(q.notBefore) {
		return nil
	}
	if !q.greeted {
		return q.greet
	}
	if !q.capabilities.isSilent() {
		return nil // it lists what it reads, or has not answered yet
	}
	path, known := q.path()
	switch {
	case path == "":
		return nil
	case !known:
		return func(ctx context.Context) (func(), error) { return q.tryControl(ctx, path) }
	}
	for _, e := range q.encodings {
		if q.capabilities.reads(e) == unknown {
			return func(ctx context.Context) (func(), error) { return q.question(ctx, path, e) }
		}
	}
	return nil
}

// path returns the method for questions, or "" for none, and whether its control has run. q.mu must be held.
func (q *encodingProbe) path() (path string, known bool) {
	path = healthPath
	if q.goServer {
		path = q.single
	}
	good, known := q.control[path]
	if known && !good {
		return "", false
	}
	return path, known
}

func (q *encodingProbe) call(path, encoding string, body []byte) gatewayCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	return gatewayCall{authority: q.authority, path: path, encoding: encoding, body: body, most: maxProbeReply}
}

// greet makes a plain call: a server that lists encodings answers it with its list.
func (q *encodingProbe) greet(ctx context.Context) (func(), error) {
	a, err := q.ask(ctx, q.call(healthPath, "", frameOf(false, healthRequest)))
	if err != nil {
		return nil, err
	}
	q.capabilities.recordHeaders(a.header)
	return func() {
		q.greeted = true
		code, message := a.status()
		q.goServer = code == "12" && message == "unknown service grpc.health.v1.Health"
		q.wantsSingle.Store(q.goServer && q.single == "")
	}, nil
}

// isRefused makes a call, and reports whether the server refused its encoding.
func (q *encodingProbe) isRefused(ctx context.Context, path, encoding string, message []byte) (bool, error) {
	body := cutOffMessage
	if path == healthPath {
		body = frameOf(true, message)
	}
	a, err := q.ask(ctx, q.call(path, encoding, body))
	if err != nil {
		return false, err
	}
	q.capabilities.recordHeaders(a.header) // a refusal may come with a list
	code, text := a.status()
	switch code {
	case "1", "4", "8", "14": // the server may not have seen it
		return false, errNotGRPC
	}
	return isRefusal(code, text, encoding), nil
}

// tryControl finds out whether the server checks the encoding of calls to path first.
func (q *encodingProbe) tryControl(ctx context.Context, path string) (func(), error) {
	refused, err := q.isRefused(ctx, path, controlName, healthRequest)
	if err != nil {
		return nil, err
	}
	return func() {
		if q.control == nil {
			q.control = map[string]bool{}
		}
		q.control[path] = refused
		if !refused {
			q.onUnavailable()
		}
	}, nil
}

// question finds out whether the server reads an encoding.
func (q *encodingProbe) question(ctx context.Context, path, encoding string) (func(), error) {
	message, err := q.codecs.AppendCompress(nil, healthRequest, encoding)
	if err != nil {
		return nil, err
	}
	refused, err := q.isRefused(ctx, path, encoding, message)
	if err != nil {
		return nil, err
	}
	return func() { q.capabilities.recordProbe(encoding, !refused) }, nil
}

// gatewayCall is a call by the gateway itself. No client sees it.
type gatewayCall struct {
	scheme, authority, path string
	encoding                string // "": none
	body                    []byte // message frames
	most                    int64  // limit for the answer in bytes
}

// gatewayReply is the response to a gatewayCall, whatever its status.
type gatewayReply struct {
	header, trailer http.Header
	body            []byte
}

var errNotGRPC = errors.New("the answer is not gRPC")

// do makes the call. It returns an error if the answer is not a gRPC response.
func (c gatewayCall) do(ctx context.Context, transport http.RoundTripper) (*gatewayReply, error) {
	u := url.URL{Scheme: c.scheme, Host: c.authority, Path: c.path}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{
		"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "User-Agent": {"cinch"},
		"Grpc-Accept-Encoding": {gatewayToken},
	}
	if c.encoding != "" {
		r.Header["Grpc-Encoding"] = []string{c.encoding}
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !isGRPC(resp.Header) {
		return nil, fmt.Errorf("%w: HTTP status %d", errNotGRPC, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.most+1))
	if err != nil {
		return nil, err
	}
	return &gatewayReply{header: resp.Header, trailer: resp.Trailer, body: body}, nil
}

// status returns the status of a call, which is in the headers of a trailers-only response, and in the
// trailers otherwise.
func (a *gatewayReply) status() (code, message string) {
	h := a.trailer
	if len(a.header["Grpc-Status"]) > 0 {
		h = a.header
	}
	return h.Get("Grpc-Status"), unescapeMessage(h.Get("Grpc-Message"))
}

// unescapeMessage is the inverse of escapeMessage. It returns messages with invalid escapes unchanged.
func unescapeMessage(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}

// frameOf returns a message with its header.
func frameOf(compressed bool, message []byte) []byte {
	return append(wire.AppendHeader(nil, compressed, len(message)), message...)
}

// saysNotInstalled reports whether a trailers-only response means that the server does not know the encoding.
// The call is then sent again, so an application's own error about compression must not match: only the exact
// words of implementations do.
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

// isRefusal reports whether the answer to a gatewayCall refuses an encoding: it says so, or names the
// encoding in an error. Servers do not execute these calls, so that an error can't come from an application.
func isRefusal(code, message, encoding string) bool {
	if saysNotInstalled(code, message, encoding) {
		return true
	}
	message = strings.ToLower(message)
	return (code == "12" || code == "13") && strings.Contains(message, encoding) &&
		(strings.Contains(message, "compress") || strings.Contains(message, "encoding"))
}
