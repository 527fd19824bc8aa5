package http2

import (
	"errors"
	"fmt"

	xhttp2 "golang.org/x/net/http2"
)

// Errors of RoundTrip that mean that the server has not processed the request. So does a reset with
// REFUSED_STREAM, an xhttp2.StreamError.
var (
	// ErrGoAway is returned for a request beyond the last stream that the server's GOAWAY names.
	ErrGoAway = errors.New("http2: the server goes away without having processed the request")
	// ErrUnusable is returned by a connection that accepts no more requests. Nothing was sent.
	ErrUnusable = errors.New("http2: the connection accepts no more requests")
)

// ErrHeaderSize is returned for a request whose header list is longer than the server's
// SETTINGS_MAX_HEADER_LIST_SIZE. Nothing was sent, and a retry would fail, too.
var ErrHeaderSize = errors.New("http2: the header list is longer than the server accepts (SETTINGS_MAX_HEADER_LIST_SIZE)")

// Errors of calls that lose their stream to other clients (see fairshare.go).
var (
	ErrSilent = errors.New("the client sent nothing but headers while others waited for a stream to the upstream")
	ErrShare  = errors.New("the client has more than its share of the streams that the upstream accepts, while others waited for one")
)

// IsUnprocessed reports whether an error of RoundTrip means that the server has not processed the request, so
// that it may be sent again.
func IsUnprocessed(err error) bool {
	var reset xhttp2.StreamError
	if errors.As(err, &reset) {
		return reset.Code == xhttp2.ErrCodeRefusedStream
	}
	return errors.Is(err, ErrGoAway) || errors.Is(err, ErrUnusable)
}

var (
	errClosed      = errors.New("http2: the connection is closed")
	errBodyClosed  = errors.New("http2: the body is closed")
	errHandlerDone = errors.New("http2: the handler has returned")
	errEnded       = errors.New("http2: the stream has ended")
	errPeerHeader  = errors.New("http2: the peer's header list is too long")
	errShortBody   = errors.New("http2: the body is shorter than its content-length")
	errLongBody    = errors.New("http2: the body is longer than its content-length")
)

// violation is an error of the peer that ends its connection (RFC 9113, section 5.4.1).
type violation struct {
	code xhttp2.ErrCode
	what string
}

func (v violation) Error() string { return fmt.Sprintf("http2: %v: %s", v.code, v.what) }

func protocolError(what string) error { return violation{xhttp2.ErrCodeProtocol, what} }

func enhanceYourCalm(what string) error { return violation{xhttp2.ErrCodeEnhanceYourCalm, what} }

// streamError returns an error that ends one stream (section 5.4.2).
func streamError(id uint32, code xhttp2.ErrCode, what string) error {
	return xhttp2.StreamError{StreamID: id, Code: code, Cause: errors.New(what)}
}

func malformed(id uint32, what string) error { return streamError(id, xhttp2.ErrCodeProtocol, what) }

// GoAwayError is the error of a connection that the server has ended with a GOAWAY.
type GoAwayError struct {
	Code  xhttp2.ErrCode
	Debug string
}

func (e GoAwayError) Error() string {
	return fmt.Sprintf("http2: the server went away: %v %q", e.Code, e.Debug)
}
