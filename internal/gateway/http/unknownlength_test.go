package http

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// chunked hides the length of a body.
type chunked struct{ io.Reader }

func sendChunked(t *testing.T, c *http.Client, to, kind string, body io.Reader) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, chunked{body})
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, err := c.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, got, err
}

// A message of Protocol Buffers goes in a lane, as a whole, even if its length is not declared. Other bodies, which the
// receiver may process while they arrive, and bodies that are too long, are passed on while they are read.
func TestMessagesWithoutLength(t *testing.T) {
	var lengths []int64
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lengths = append(lengths, r.ContentLength)
		echo(w, r)
	})), nil)
	c := client(t)
	near.untilCarried(c)
	long := bytes.Repeat([]byte("0123456789abcdef"), collectBytes/16+1)
	for _, x := range []struct {
		name, kind string
		body       []byte
		known      bool
	}{
		{"a message", "application/x-protobuf", text, true},
		{"a message with parameters", "Application/X-Protobuf; charset=x", text, true},
		{"an empty one", "application/x-protobuf", nil, true},
		{"a long one", "application/x-protobuf", long, false},
		{"as long as may be", "application/protobuf", long[:collectBytes-1], true},
		{"text", "text/plain", text, false},
	} {
		_, got, err := sendChunked(t, c, near.url+"/v1/traces", x.kind, bytes.NewReader(x.body))
		if err != nil || !bytes.Equal(got, x.body) {
			t.Errorf("%s: %d of %d bytes came back: %v", x.name, len(got), len(x.body), err)
		}
		if last := lengths[len(lengths)-1]; (last >= 0) != x.known {
			t.Errorf("%s: its length is %d", x.name, last)
		}
	}
}

// A message that the client breaks off is not forwarded as a complete one.
func TestMessageWithoutLengthIsCut(t *testing.T) {
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil && strings.Contains(string(b), "half of") {
			t.Error("a piece of a message was taken for all of it")
		}
	})), nil)
	c := client(t)
	near.untilCarried(c)
	broken := io.MultiReader(strings.NewReader("half of a message"), errorReader{errors.New("no more")})
	if resp, _, err := sendChunked(t, c, near.url, "application/x-protobuf", broken); err == nil && resp.StatusCode < 400 {
		t.Error(resp.Status)
	}
	if _, got, err := sendChunked(t, c, near.url, "application/x-protobuf", bytes.NewReader(text)); err != nil {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}

// If there is no memory for a message it is passed on while it is read, beginning with what was read already.
func TestMessageWithoutLengthOrMemory(t *testing.T) {
	var lengths []int64
	near, _ := startPair(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lengths = append(lengths, r.ContentLength)
		echo(w, r)
	})), func(near, _ *Config) {
		near.Requests = memory.NewBudget(256 << 10)
	})
	c := client(t)
	near.untilCarried(c)
	long := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for range 3 {
		if _, got, err := sendChunked(t, c, near.url, "application/x-protobuf", bytes.NewReader(long)); err != nil || !bytes.Equal(got, long) {
			t.Errorf("%d of %d bytes came back: %v", len(got), len(long), err)
		}
		if last := lengths[len(lengths)-1]; last >= 0 {
			t.Errorf("%d bytes are in memory: is there no bound?", last)
		}
	}
}
