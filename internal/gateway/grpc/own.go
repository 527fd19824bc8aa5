package grpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// ownCall is a call of the gateway's own: no client has asked for it, and none sees it.
type ownCall struct {
	scheme, authority, path string
	encoding                string // "": none
	body                    []byte // frames of messages
	most                    int64  // bytes of an answer
}

// ownAnswer is what came back of it, whatever its status.
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
