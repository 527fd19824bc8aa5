package http2

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Informational responses are passed to the request's trace before RoundTrip returns. Their number is not limited if
// the trace accepts them.
func TestInformational(t *testing.T) {
	const many = 3 * maxInformational
	told := make(chan struct{}, 1)
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range many {
			w.Header().Set("N", fmt.Sprint(i))
			w.WriteHeader(http.StatusProcessing)
			<-told
		}
	}, nil)
	n := 0
	ctx := httptrace.WithClientTrace(within(t), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		if status != http.StatusProcessing || h.Get("N") != fmt.Sprint(n) {
			t.Errorf("%d, %v behind %d", status, h, n)
		}
		n++
		told <- struct{}{}
		return nil
	}})
	if resp, err := c.RoundTrip(request(ctx, t, "GET", "/", nil)); err != nil || resp.StatusCode != 200 || n != many {
		t.Errorf("%v, %v behind %d", resp, err, n)
	}
	stop := errors.New("enough")
	ctx = httptrace.WithClientTrace(within(t), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		told <- struct{}{}
		return stop
	}})
	if _, err := c.RoundTrip(request(ctx, t, "GET", "/", nil)); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// readBody is a body that records whether it was read.
type readBody struct {
	io.Reader
	read atomic.Bool
}

func (b *readBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.Reader.Read(p)
}

// A body whose request expects 100 (Continue) waits for it, but no longer than the timeout, and is not read
// if the server refuses first.
func TestExpectContinue(t *testing.T) {
	const patience = 100 * time.Millisecond
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuse":
			w.WriteHeader(http.StatusExpectationFailed)
			return
		case "/late":
			time.Sleep(3 * patience)
		}
		echo(w, r)
	}, nil)
	for path, timeout := range map[string]time.Duration{"/refuse": time.Minute, "/late": patience, "/echo": time.Minute} {
		n, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := NewClientConn(n, ClientConfig{Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader, ContinueTimeout: timeout})
		body := &readBody{Reader: strings.NewReader("hello")}
		r := request(within(t), t, "POST", path, body)
		r.Header.Set("Expect", "100-continue")
		resp, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(path, err)
		}
		got, err := io.ReadAll(resp.Body)
		time.Sleep(10 * time.Millisecond) // time for a wrong read of the request's body
		if refused := path == "/refuse"; refused == body.read.Load() || refused != (resp.StatusCode == http.StatusExpectationFailed) || !refused && string(got) != "hello" {
			t.Errorf("%s: %s, %q, %v, read: %v", path, resp.Status, got, err, body.read.Load())
		}
		_ = resp.Body.Close()
		c.Close()
	}
}

// Trailers are also sent after an empty body.
func TestTrailersOfNothing(t *testing.T) {
	c := pair(t, tell, nil)
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader("")} {
		r := request(within(t), t, "POST", "/", body)
		r.Header.Set("Content-Length", "0")
		r.Trailer = http.Header{"X-Sum": {"1"}}
		resp, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(got), `X-Sum: ["1"]`) {
			t.Errorf("%q, %v", got, err)
		}
	}
}
