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
	"github.com/cinch-layer/cinch/internal/gateway/h2"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// Most servers say what they read, in grpc-accept-encoding of every response that has a message. Of those that don't, as
// grpc-go's, it is found out by calls of the gateway's own, which nobody could take for a client's, and never with a client's
// call: servers answer an encoding that they don't know in many ways, and one (C++ 1.51) hands the application the
// compressed bytes as if they were the message.
//
//	greeting  health check, plain        a server with a list says it here, as a gateway does; one that answers without is silent
//	control   health check, cinch-probe  does it look at the encoding first? Only then its next answers mean anything
//	question  health check, zstd         refused as the control was: it does not read zstd; any other status: it does
//
// grpc-go looks at a call's encoding only when it knows the method. Without a health service the control and the questions go
// to a method of its own which clients call with one message. Their only message is cut off behind its first byte, so nothing is
// ever there that could be executed: the server sees what it sees of a client that dies.
//
// What is found out holds for the connection. Another one may lead to another server.
type inquiry struct {
	ask    func(ctx context.Context, c ownCall) (*ownAnswer, error)
	knows  *knowledge
	codecs *grpccodec.Set
	alive  context.Context
	tell   func() // that the server could not be asked
	faults h2.Faults

	patience time.Duration // of a client's call that waits for what is found out

	mu        sync.Mutex
	wants     []string      // encodings that calls would be sent in
	authority string        // of a client's call: balancers look at it
	single    string        // a method that clients call with one message; "": none is known
	running   chan struct{} // closed at the end of what runs; nil: nothing does
	began     time.Time
	notBefore time.Time // something went wrong

	greeted  bool
	goServer bool // by its words it is grpc-go's, without a health service
	// wantsSingle says that the method of a call with one message is asked for: it is goServer and there is no single.
	wantsSingle atomic.Bool
	without     int             // responses since, and no method to ask it by
	control     map[string]bool // by method: does the server look at the encoding first?
}

const (
	healthPath   = "/grpc.health.v1.Health/Check"
	controlName  = "cinch-probe" // nobody's encoding
	askTimeout   = 3 * time.Second
	askPause     = time.Minute // after something went wrong
	patienceAsks = 250 * time.Millisecond
	maxOwnAnswer = 4 << 10
	manyWithout  = 20 // responses, and the log says that there is no way to ask
)

// healthRequest is a HealthCheckRequest for the server as a whole. Its field 15 is unknown to everybody, and there to be compressed.
var healthRequest = append([]byte{15<<3 | 2, 32}, "cinch asks, cinch asks, cinch ask"[:32]...)

// cutOffMessage is the frame of a compressed message of 64 bytes, of which one is there.
var cutOffMessage = append(wire.AppendHeader(nil, true, 64), 0)

// want takes notice that calls would be sent in these encodings, and begins to find out about them.
func (q *inquiry) want(encodings []string, authority string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.authority == "" {
		q.authority = authority
	}
	for _, e := range encodings {
		if !slices.Contains(q.wants, e) {
			q.wants = append(q.wants, e)
		}
	}
	q.begin()
}

// heard goes on if a response has told something new. single is the method of a call that consisted of one message, or "".
func (q *inquiry) heard(single string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.single == "" {
		q.single = single
		q.wantsSingle.Store(q.goServer && single == "")
	}
	if q.goServer && q.single == "" {
		if q.without++; q.without == manyWithout {
			q.tell()
		}
	}
	q.begin()
}

// await waits for what runs, but not for long, because a call of a client's is waiting; and not at all once the server has let
// a call of ours wait in vain.
func (q *inquiry) await(ctx context.Context) {
	q.mu.Lock()
	running, left, hope := q.running, q.patience-time.Since(q.began), q.notBefore.IsZero()
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

// begin starts to ask if there is something to ask. q.mu is held.
func (q *inquiry) begin() {
	if q.running != nil || q.next() == nil {
		return
	}
	q.running, q.began = make(chan struct{}), time.Now()
	go q.run()
}

// run asks until there is nothing more to ask, or something went wrong.
func (q *inquiry) run() {
	ctx, cancel := context.WithTimeout(q.alive, askTimeout)
	defer cancel()
	defer gateway.CatchPanic(q.faults.Log, q.faults.Stats, q.pause)
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() {
		close(q.running)
		q.running = nil
	}()
	for step := q.next(); step != nil; step = q.next() {
		conclude, err := q.take(ctx, step)
		if err != nil {
			q.notBefore = time.Now().Add(askPause)
			break
		}
		conclude()
	}
}

// take makes a call without q.mu, which is held before and behind it.
func (q *inquiry) take(ctx context.Context, s step) (conclude func(), err error) {
	q.mu.Unlock()
	defer q.mu.Lock()
	return s(ctx)
}

// pause lets the server not be asked for a while, after a panic.
func (q *inquiry) pause() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notBefore = time.Now().Add(askPause)
}

// step makes a call. What it concludes is called with q.mu held.
type step func(ctx context.Context) (conclude func(), err error)

// next returns what to ask now, nil for nothing. q.mu is held.
func (q *inquiry) next() step {
	if len(q.wants) == 0 || time.Now().Before(q.notBefore) {
		return nil
	}
	if !q.greeted {
		return q.greet
	}
	if !q.knows.isSilent() {
		return nil // it says itself what it reads, or has not said anything yet
	}
	path, known := q.path()
	switch {
	case path == "":
		return nil
	case !known:
		return func(ctx context.Context) (func(), error) { return q.tryControl(ctx, path) }
	}
	for _, e := range q.wants {
		if q.knows.reads(e) == unknown {
			return func(ctx context.Context) (func(), error) { return q.question(ctx, path, e) }
		}
	}
	return nil
}

// path returns the method that questions go to, "" for none, and whether its control has run. q.mu is held.
func (q *inquiry) path() (path string, known bool) {
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

func (q *inquiry) call(path, encoding string, body []byte) ownCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	return ownCall{authority: q.authority, path: path, encoding: encoding, body: body, most: maxOwnAnswer}
}

// greet makes a plain call, which a server that lists encodings answers with its list.
func (q *inquiry) greet(ctx context.Context) (func(), error) {
	a, err := q.ask(ctx, q.call(healthPath, "", frameOf(false, healthRequest)))
	if err != nil {
		return nil, err
	}
	q.knows.learn(a.header)
	return func() {
		q.greeted = true
		code, message := a.status()
		q.goServer = code == "12" && message == "unknown service grpc.health.v1.Health"
		q.wantsSingle.Store(q.goServer && q.single == "")
	}, nil
}

// refuses makes a call and reports whether the server refused its encoding.
func (q *inquiry) refuses(ctx context.Context, path, encoding string, message []byte) (bool, error) {
	body := cutOffMessage
	if path == healthPath {
		body = frameOf(true, message)
	}
	a, err := q.ask(ctx, q.call(path, encoding, body))
	if err != nil {
		return false, err
	}
	q.knows.learn(a.header) // a refusal may come with a list
	code, text := a.status()
	switch code {
	case "1", "4", "8", "14": // nobody has looked at it
		return false, errNoAnswer
	}
	return seemsToRefuse(code, text, encoding), nil
}

// tryControl finds out whether the server looks at the encoding of calls to path first.
func (q *inquiry) tryControl(ctx context.Context, path string) (func(), error) {
	refused, err := q.refuses(ctx, path, controlName, healthRequest)
	if err != nil {
		return nil, err
	}
	return func() {
		if q.control == nil {
			q.control = map[string]bool{}
		}
		q.control[path] = refused
		if !refused {
			q.tell()
		}
	}, nil
}

// question finds out whether the server reads an encoding.
func (q *inquiry) question(ctx context.Context, path, encoding string) (func(), error) {
	message, err := q.codecs.AppendCompress(nil, healthRequest, encoding)
	if err != nil {
		return nil, err
	}
	refused, err := q.refuses(ctx, path, encoding, message)
	if err != nil {
		return nil, err
	}
	return func() { q.knows.learnAnswer(encoding, !refused) }, nil
}

// ownCall is a call of the gateway's own: no client has asked for it, and none sees it.
type ownCall struct {
	scheme, authority, path string
	encoding                string // "": none
	body                    []byte // frames of messages
	most                    int64  // bytes of an answer
}

// ownAnswer holds the response to one of the gateway's own calls, whatever its status.
type ownAnswer struct {
	header, trailer http.Header
	body            []byte
}

var errNoAnswer = errors.New("the answer is not gRPC's")

// do makes the call. An error means that there is no answer of gRPC's.
func (c ownCall) do(ctx context.Context, transport http.RoundTripper) (*ownAnswer, error) {
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
		return nil, fmt.Errorf("%w: HTTP status %d", errNoAnswer, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.most+1))
	if err != nil {
		return nil, err
	}
	return &ownAnswer{header: resp.Header, trailer: resp.Trailer, body: body}, nil
}

// status returns the status of a call, which is in the trailers, or in the headers if there are no others.
func (a *ownAnswer) status() (code, message string) {
	h := a.trailer
	if len(a.header["Grpc-Status"]) > 0 {
		h = a.header
	}
	return h.Get("Grpc-Status"), unescapeMessage(h.Get("Grpc-Message"))
}

// unescapeMessage reads what escapeMessage writes, and leaves what is no escape as it is.
func unescapeMessage(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}

// frameOf is a message as a body has it.
func frameOf(compressed bool, message []byte) []byte {
	return append(wire.AppendHeader(nil, compressed, len(message)), message...)
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

// seemsToRefuse reports whether the answer to one of the gateway's own calls refuses an encoding: it says so, or names the encoding in an error. No
// server executes these calls, so an error is not about what they do.
func seemsToRefuse(code, message, encoding string) bool {
	if saysNotInstalled(code, message, encoding) {
		return true
	}
	message = strings.ToLower(message)
	return (code == "12" || code == "13") && strings.Contains(message, encoding) &&
		(strings.Contains(message, "compress") || strings.Contains(message, "encoding"))
}
