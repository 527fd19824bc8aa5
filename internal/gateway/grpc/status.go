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

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
)

// code is a gRPC status code. Those that a gateway answers with are listed.
type code int

const (
	codeCancelled         code = 1
	codeInvalid           code = 3
	codeDeadlineExceeded  code = 4
	codeNotFound          code = 5
	codePermissionDenied  code = 7
	codeResourceExhausted code = 8
	codeUnimplemented     code = 12
	codeInternal          code = 13
	codeUnavailable       code = 14
)

var errDraining = errors.New("the gateway shuts down")

var errSlow = errors.New("the call moved too little while others waited for the memory that its message holds")

// ending is how a call ended when the gateway has to say so.
type ending struct {
	code    code
	message string
	missing string // of missingHeader; "": no such header
}

// endingOf says what an error of the upstream's connection or stream means to the client,
// as gRPC's HTTP/2 mapping has it.
func endingOf(err error) ending {
	var reset http2.StreamError
	var missing *missingError
	switch {
	case errors.As(err, &missing):
		return ending{codeUnavailable, missing.Error(), missing.header()}
	case errors.As(err, &reset):
		return ending{code: codeOfReset(reset.Code), message: "the upstream reset the stream: " + reset.Code.String()}
	case errors.Is(err, errTooLarge), errors.Is(err, errSlow), errors.Is(err, h2.ErrSilent):
		return ending{code: codeResourceExhausted, message: err.Error()}
	case errors.Is(err, errCorrupt), errors.Is(err, errFormat), errors.Is(err, h2.ErrHeaderSize), errors.Is(err, gateway.ErrPanicked):
		return ending{code: codeInternal, message: err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ending{code: codeDeadlineExceeded, message: "a message took too long to come"}
	case errors.Is(err, context.DeadlineExceeded):
		return ending{code: codeDeadlineExceeded, message: err.Error()}
	case errors.Is(err, context.Canceled):
		return ending{code: codeCancelled, message: err.Error()}
	default:
		return ending{code: codeUnavailable, message: err.Error()}
	}
}

// codeOfReset is the status of a stream that was reset.
func codeOfReset(c http2.ErrCode) code {
	switch c {
	case http2.ErrCodeRefusedStream:
		return codeUnavailable
	case http2.ErrCodeCancel:
		return codeCancelled
	case http2.ErrCodeEnhanceYourCalm:
		return codeResourceExhausted
	case http2.ErrCodeInadequateSecurity:
		return codePermissionDenied
	default:
		return codeInternal
	}
}

// class names the ending in metrics.
func (s ending) class() string {
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

// timeoutUnits are those of grpc-timeout.
var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// timedOut reports whether a call that took so long has exceeded its grpc-timeout.
func timedOut(timeout string, took time.Duration) bool {
	if len(timeout) < 2 || len(timeout) > 9 {
		return false
	}
	unit, known := timeoutUnits[timeout[len(timeout)-1]]
	n, err := strconv.Atoi(timeout[:len(timeout)-1])
	return known && err == nil && float64(took) >= float64(n)*float64(unit)
}

// fail ends a call. Before the headers have gone it is an answer of nothing else, which
// gRPC calls trailers-only; behind them it is the trailers.
func (s ending) fail(w http.ResponseWriter, headersSent bool) {
	prefix := http.TrailerPrefix
	h := w.Header()
	if !headersSent {
		prefix = ""
		clear(h)
		h["Content-Type"] = []string{"application/grpc"}
	}
	h[prefix+"Grpc-Status"] = []string{strconv.Itoa(int(s.code))}
	h[prefix+"Grpc-Message"] = []string{escapeMessage("cinch: " + s.message)}
	if s.missing != "" {
		h[prefix+missingHeader] = []string{s.missing}
	}
	if !headersSent {
		w.WriteHeader(http.StatusOK)
	}
}

// escapeMessage writes a message as grpc-message wants it: printable ASCII, and the rest,
// % included, as %XX.
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
