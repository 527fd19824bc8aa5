package grpc

import (
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/cinch-layer/cinch/bench/rig/rawgrpc"
)

// payload says how to make bytes, the same in all languages.
type payload struct {
	Gen  string `json:"gen"`
	Seed uint32 `json:"seed"`
	Len  int    `json:"len"`
}

func (p payload) bytes() []byte {
	if p.Gen == "text" {
		return []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", p.Len/45+1)[:p.Len])
	}
	out, state := make([]byte, p.Len), p.Seed
	for i := range out {
		state = state*1664525 + 1013904223
		out[i] = byte(state >> 24)
	}
	return out
}

// order is what a call asks the server to do, in the metadatum "x-do".
type order struct {
	Echo     bool      `json:"echo"`    // send back each message as it comes
	Respond  []payload `json:"respond"` // send these after the last one came
	Early    bool      `json:"early"`   // end without reading
	SleepMs  int       `json:"sleep_ms"`
	Code     uint32    `json:"code"`
	Message  string    `json:"message"`
	Details  bool      `json:"details"`
	Compress string    `json:"compress"`
}

// scenarioServer does what the metadata of a call say, for all methods and kinds of
// streams, and writes down what it saw.
type scenarioServer struct {
	addr string

	mu    sync.Mutex
	calls map[string]string // by the call's name, what the server saw of it
}

func startScenarioServer(t testing.TB, c *certificates) *scenarioServer {
	t.Helper()
	s := &scenarioServer{calls: map[string]string{}}
	g := grpc.NewServer(append(c.serverOptions(), grpc.UnknownServiceHandler(s.handle), grpc.ForceServerCodecV2(rawgrpc.Codec{}))...)
	s.addr = serve(t, g)
	return s
}

func (s *scenarioServer) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	md, _ := metadata.FromIncomingContext(stream.Context())
	if slices.Equal(md["user-agent"], []string{"cinch"}) {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method) // a gateway's own, see docs/GRPC.md
	}
	var seen []string
	var do order
	err := json.Unmarshal([]byte(strings.Join(md["x-do"], "")), &do)
	switch {
	case err != nil:
		err = status.Errorf(codes.InvalidArgument, "x-do: %v", err)
	case strings.HasSuffix(method, "/Nothing"):
		err = status.Errorf(codes.Unimplemented, "unknown method %s", method)
	default:
		seen, err = carryOut(do, md, stream)
	}
	ended := "completed"
	if stream.Context().Err() != nil {
		ended = "cancelled"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[strings.Join(md["x-name"], "")] = strings.Join(slices.Concat([]string{method}, showMetadata(md), seen, []string{ended}), "\n  ")
	return err
}

func carryOut(do order, md metadata.MD, stream grpc.ServerStream) (seen []string, err error) {
	answer := metadata.MD{}
	trailer := metadata.MD{}
	for k, v := range md {
		if strings.HasPrefix(k, "x-header-") {
			answer[k] = v
		} else if strings.HasPrefix(k, "x-trailer-") {
			trailer[k] = v
		}
	}
	stream.SetTrailer(trailer)
	if do.Compress != "" {
		if err := grpc.SetSendCompressor(stream.Context(), do.Compress); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	if err := stream.SetHeader(answer); err != nil {
		return nil, err
	}
	if !do.Early {
		if seen, err = receive(do, stream); err != nil {
			return seen, err
		}
	}
	for _, p := range do.Respond {
		message := p.bytes()
		if err := stream.SendMsg(&message); err != nil {
			return seen, err
		}
	}
	return seen, finish(do, stream.Context())
}

func receive(do order, stream grpc.ServerStream) (seen []string, err error) {
	for {
		var in []byte
		err := stream.RecvMsg(&in)
		if errors.Is(err, io.EOF) {
			return append(seen, "end"), nil
		}
		if err != nil {
			return seen, err
		}
		seen = append(seen, showBytes(in))
		if do.Echo {
			if err := stream.SendMsg(&in); err != nil {
				return seen, err
			}
		}
		// With SleepMs a client that does not end its side is left waiting, so that it can
		// cancel or time out.
		if do.SleepMs > 0 {
			return seen, finish(do, stream.Context())
		}
	}
}

func finish(do order, ctx context.Context) error {
	if do.SleepMs > 0 {
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-time.After(time.Duration(do.SleepMs) * time.Millisecond):
		}
	}
	if do.Code == 0 {
		return nil
	}
	st := status.New(codes.Code(do.Code), do.Message)
	if do.Details {
		var err error
		if st, err = st.WithDetails(durationpb.New(42 * time.Second)); err != nil {
			return err
		}
	}
	return st.Err()
}

// seen is what the server saw of all calls since the last question, by name. It waits for
// calls that the server has not yet noticed to be over.
func (s *scenarioServer) seen(t testing.TB, want int) string {
	t.Helper()
	for range 500 {
		s.mu.Lock()
		n := len(s.calls)
		s.mu.Unlock()
		if n >= want {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([]string, 0, len(s.calls))
	for name, call := range s.calls {
		lines = append(lines, name+": "+call)
	}
	slices.Sort(lines)
	s.calls = map[string]string{}
	return strings.Join(lines, "\n") + "\n"
}

// showMetadata leaves out what belongs to a hop: how the next message is compressed is
// between neighbours, and so is what they can decode.
func showMetadata(md metadata.MD) []string {
	var out []string
	for k, values := range md {
		if k == "grpc-accept-encoding" || k == "accept-encoding" || k == "grpc-encoding" {
			continue
		}
		for _, v := range values {
			out = append(out, k+"="+showBytes([]byte(v)))
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return out
}

func keyOf(line string) string { key, _, _ := strings.Cut(line, "="); return key }

func showBytes(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("sha256:%x/%d", sha256.Sum256(b), len(b))
	}
	if slices.ContainsFunc(b, func(c byte) bool { return c < 0x20 || c >= 0x7f }) {
		return "hex:" + hex.EncodeToString(b)
	}
	return fmt.Sprintf("%q", b)
}

// zlibCompressor is what gRPC calls deflate, which grpc-go lacks.
type zlibCompressor struct{}

func init() { encoding.RegisterCompressor(zlibCompressor{}) }

func (zlibCompressor) Name() string { return "deflate" }

func (zlibCompressor) Compress(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }

func (zlibCompressor) Decompress(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
