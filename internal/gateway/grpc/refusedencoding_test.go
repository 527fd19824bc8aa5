package grpc

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/policy"
)

func TestSaysNotInstalled(t *testing.T) {
	for _, test := range []struct {
		code, message string
		want          bool
	}{
		{"12", `grpc: Decompressor is not installed for grpc-encoding "zstd"`, true},
		{"12", "Can't find decompressor for zstd", true},
		{"12", `Received message compressed with unsupported encoding "zstd"`, true},
		{"12", "Unsupported grpc-encoding value 'zstd'. Supported encodings: identity, gzip", true},
		{"12", "Content is compressed with `zstd` which isn't supported", true},
		{"12", "Compression algorithm 'zstd' is disabled.", true},
		{"12", "Invalid compression algorithm value '4'.", true},
		{"13", "Error parsing 'grpc-encoding' metadata", true},
		{"13", "while writing to the log: Error parsing 'grpc-encoding' metadata", false},
		{"13", `grpc: Decompressor is not installed for grpc-encoding "zstd"`, true},
		{"13", "Can't find decompressor for zstd", true},
		{"12", `unknown compression "zstd": supported encodings are gzip`, true},
		{"12", "cinch: unknown grpc-encoding zstd", true},
		{"12", "the store has no zstd compression", false},
		{"12", "blobs with encoding zstd can't be appended to", false},
		{"12", "the backend said: Can't find decompressor for zstd", false},
		{"12", "unknown method Push", false},
		{"12", "video encoding h265 is not supported", false},
		{"13", "could not decompress the stored chunk", false},
		{"13", "zstd: decompression of block 7 failed", false},
		{"2", `grpc: Decompressor is not installed for grpc-encoding "zstd"`, false},
	} {
		if got := saysNotInstalled(test.code, test.message, "zstd"); got != test.want {
			t.Errorf("%s %s: %v", test.code, test.message, got)
		}
	}
}

// An error of the application that happens to mention compression does not cause a retry: calls may have side
// effects.
func TestApplicationErrorsAreFinal(t *testing.T) {
	for _, want := range []*status.Status{
		status.New(codes.Internal, "could not decompress the stored chunk"),
		status.New(codes.Internal, "zstd: decompression of block 7 failed"),
		status.New(codes.Unimplemented, "video encoding h265 is not supported"),
		status.New(codes.Unimplemented, "the store has no zstd compression"),
	} {
		var ran atomic.Int64
		server := startServer(t, func(_ any, s grpc.ServerStream) error {
			var m []byte
			if err := s.RecvMsg(&m); err != nil {
				return err
			}
			if !isOwn(s.Context()) {
				ran.Add(1)
			}
			return want.Err()
		})
		g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamReads = []string{"zstd"} })
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
		_, err := unary(within(t), connect(t, g.addr), "Unary", payload(3000))
		if got := status.Convert(err); got.Code() != want.Code() || got.Message() != want.Message() {
			t.Errorf("%v instead of %v", got, want)
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("%v: the call ran %d times", want, n)
		}
	}
}

// A server that was known to read an encoding refuses it, before it has begun the call. If it uses the words
// of an implementation, this call and later ones are sent in another encoding. A reset stream may have been
// executed, and is not sent again.
func TestRefusalAfterAll(t *testing.T) {
	for words, again := range map[string]bool{
		`12 grpc: Decompressor is not installed for grpc-encoding "zstd"`: true,
		"13 Error parsing 'grpc-encoding' metadata":                       true,
		"13 Error parsing 'grpc-encoding' metadata of the backend":        false,
		"": false, // a reset
	} {
		var refused atomic.Int64
		server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Type", "application/grpc")
			if r.Header.Get("Grpc-Encoding") == "zstd" {
				refused.Add(1)
				if words == "" {
					panic(http.ErrAbortHandler)
				}
				h.Set("Grpc-Status", words[:2])
				h.Set("Grpc-Message", words[3:])
				return
			}
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
			h.Set(http.TrailerPrefix+"Grpc-Status", "0")
		})
		g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamReads = []string{"zstd"} })
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
		c := connect(t, g.addr)
		for range 3 {
			if _, err := unary(within(t), c, "Unary", payload(3000)); (err == nil) != again {
				t.Errorf("%q: %v", words, err)
			}
		}
		if n := refused.Load(); again && n != 1 || !again && n != 3 {
			t.Errorf("%q: %d calls were refused", words, n)
		}
	}
}
