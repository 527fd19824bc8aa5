package grpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
)

// code is a gRPC status code. Only those that gateways return are listed.
type code int

const (
	codeCancelled         code = 1
	codeDeadlineExceeded  code = 4
	codePermissionDenied  code = 7
	codeResourceExhausted code = 8
	codeUnimplemented     code = 12
	codeInternal          code = 13
	codeUnavailable       code = 14
)

var errDraining = errors.New("the gateway is shutting down; retry")

var errSlow = errors.New("the call stalled while others waited for the memory that its message holds")

// callStatus is the status of a call that the gateway ends itself.
type callStatus struct {
	code    code
	message string
}

// callStatusOf maps an error of the upstream's connection or stream to a status, following gRPC's HTTP/2 mapping.
func callStatusOf(err error) callStatus {
	var reset xhttp2.StreamError
	switch {
	case errors.As(err, &reset):
		return callStatus{code: resetCode(reset.Code), message: "the upstream reset the stream: " + reset.Code.String()}
	case errors.Is(err, errTooLarge), errors.Is(err, errSlow), errors.Is(err, http2.ErrSilent):
		return callStatus{code: codeResourceExhausted, message: err.Error()}
	case errors.Is(err, errCorrupt), errors.Is(err, errFormat), errors.Is(err, http2.ErrHeaderSize), errors.Is(err, gateway.ErrPanicked):
		return callStatus{code: codeInternal, message: err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return callStatus{code: codeDeadlineExceeded, message: "a message took too long to arrive"}
	case errors.Is(err, context.DeadlineExceeded):
		return callStatus{code: codeDeadlineExceeded, message: err.Error()}
	case errors.Is(err, context.Canceled):
		return callStatus{code: codeCancelled, message: err.Error()}
	default:
		return callStatus{code: codeUnavailable, message: err.Error()}
	}
}

// resetCode returns the status code for a stream reset.
func resetCode(c xhttp2.ErrCode) code {
	switch c {
	case xhttp2.ErrCodeRefusedStream:
		return codeUnavailable
	case xhttp2.ErrCodeCancel:
		return codeCancelled
	case xhttp2.ErrCodeEnhanceYourCalm:
		return codeResourceExhausted
	case xhttp2.ErrCodeInadequateSecurity:
		return codePermissionDenied
	default:
		return codeInternal
	}
}

// class returns the metric label of the status.
func (s callStatus) class() string {
	switch s.code {
	case codeCancelled:
		return "cancelled"
	case codeDeadlineExceeded:
		return "deadline"
	case codePermissionDenied:
		return "permission"
	case codeResourceExhausted:
		return "exhausted"
	case codeUnavailable:
		return "unavailable"
	default:
		return "internal"
	}
}

// timeoutUnits maps the units of grpc-timeout.
var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// timedOut reports whether a call has exceeded its grpc-timeout after the time took.
func timedOut(timeout string, took time.Duration) bool {
	if len(timeout) < 2 || len(timeout) > 9 {
		return false
	}
	unit, known := timeoutUnits[timeout[len(timeout)-1]]
	n, err := strconv.Atoi(timeout[:len(timeout)-1])
	return known && err == nil && float64(took) >= float64(n)*float64(unit)
}

// fail ends a call with the status. It sends a trailers-only response if the headers have not been sent, and
// trailers otherwise.
func (s callStatus) fail(w http.ResponseWriter, headersSent bool) {
	prefix := http.TrailerPrefix
	h := w.Header()
	if !headersSent {
		prefix = ""
		clear(h)
		h["Content-Type"] = []string{"application/grpc"}
	}
	h[prefix+"Grpc-Status"] = []string{strconv.Itoa(int(s.code))}
	h[prefix+"Grpc-Message"] = []string{escapeMessage("cinch: " + s.message)}
	if !headersSent {
		w.WriteHeader(http.StatusOK)
	}
}

// escapeMessage encodes a message for grpc-message: printable ASCII unchanged, and the rest and % as %XX.
func escapeMessage(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
