package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

var race = flag.Bool("soak.race", false, "TestPairsUnderMixedLoad builds its gateways with the race detector")

var rawCodec = grpc.ForceCodecV2(rawgrpc.Codec{})

// tally counts the operations of one kind of client.
type tally struct{ calls, refused, cancelled, bytes atomic.Int64 }

// TestPairsUnderMixedLoad runs clients that behave and clients that don't against pairs of gateways, whose
// histories have very little memory, and against single ones. Well-behaved clients must get correct
// replies, and the gateways must keep running without panics and with little memory.
func TestPairsUnderMixedLoad(t *testing.T) {
	all := map[string]*testenv.GatewayServer{}
	start := func(name, protocol, upstream, settings, rules string) string {
		g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: protocol, Upstream: upstream, Settings: settings, Rules: rules, Race: *race})
		all[name] = g
		return g.Addr
	}
	const link = "link: {window: 128KiB, history: client, memory: 96MiB}"
	const linkFar = "peers: true\nlink: {memory: 96MiB}"
	calls, bodies := echoCalls(t), "http://"+echoBodies(t)
	grpcs := []string{
		start("grpc near", "grpc", start("grpc far", "grpc", calls, linkFar, "- {direction: reply, min_size: 64, setting: cinch-proto}"), link, "- {min_size: 64, setting: cinch-proto}"),
		start("grpc", "grpc", calls, "", "- {min_size: 64, setting: cinch-proto}"),
	}
	https := []string{
		start("http near", "http", "http://"+start("http far", "http", bodies, linkFar, "- {direction: reply, min_size: 64, setting: auto}"), link, "- {direction: request, min_size: 64, setting: auto}"),
		start("http", "http", bodies, "", "- {min_size: 64, setting: auto}"),
	}
	ctx, stop := context.WithTimeout(t.Context(), *length)
	defer stop()
	kinds := map[string]*tally{}
	var wg sync.WaitGroup
	work := func(kind string, perSecond float64, one func(r *rand.Rand, n *tally)) {
		if kinds[kind] == nil {
			kinds[kind] = &tally{}
		}
		n := kinds[kind]
		r := rand.New(rand.NewPCG(uint64(len(kinds)), uint64(perSecond)))
		wg.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Duration(r.ExpFloat64() / (perSecond * *rate) * 1e9))
				one(r, n)
				n.calls.Add(1)
			}
		})
	}
	memory := map[string]<-chan []float64{}
	for name, g := range all {
		memory[name] = watch(ctx, g)
	}
	for _, addr := range grpcs {
		conn := dialCalls(t, addr)
		work("unary", 15, func(r *rand.Rand, n *tally) { callOnce(t, conn, 1, metrics(r, sizeOf(r)), n) })
		work("streams", 3, func(r *rand.Rand, n *tally) { callOnce(t, conn, 2+r.IntN(20), metrics(r, sizeOf(r)/4), n) })
		work("new connections", 2, func(r *rand.Rand, n *tally) {
			c := dialCalls(nil, addr)
			defer c.Close()
			callOnce(t, c, 1, metrics(r, 2000), n)
		})
		bad := dialCalls(t, addr)
		work("cancelled calls", 10, func(r *rand.Rand, n *tally) { cancelCall(ctx, bad, r, n) })
	}
	for _, addr := range https {
		for name, protocol := range map[string]func(*http.Protocols){"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/2": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }} {
			var p http.Protocols
			protocol(&p)
			c := &http.Client{Transport: &http.Transport{Protocols: &p}}
			t.Cleanup(c.CloseIdleConnections)
			work(name, 10, func(r *rand.Rand, n *tally) { post(t, c, addr, r, n) })
			work("cancelled "+name, 5, func(r *rand.Rand, n *tally) { cancelPost(ctx, c, addr, r, n) })
		}
	}
	for _, addr := range append(grpcs, https...) {
		work("raw HTTP/2", 4, func(r *rand.Rand, n *tally) { rawFrames(ctx, addr, r, n) })
	}
	wg.Wait()
	for kind, n := range kinds {
		t.Logf("%-19s %7d calls, %d refused, %d cancelled, %d bytes", kind, n.calls.Load(), n.refused.Load(), n.cancelled.Load(), n.bytes.Load())
		if n.calls.Load() == 0 || n.refused.Load() > 2+n.calls.Load()/20 {
			t.Errorf("%s: %d of %d calls were refused", kind, n.refused.Load(), n.calls.Load())
		}
	}
	r, last := rand.New(rand.NewPCG(1, 1)), &tally{}
	for _, addr := range grpcs {
		c := dialCalls(t, addr)
		callOnce(t, c, 3, metrics(r, 2000), last)
	}
	for _, addr := range https {
		post(t, http.DefaultClient, addr, r, last)
	}
	if last.refused.Load() != 0 {
		t.Error("a gateway refuses calls after the load")
	}
	for name, g := range all {
		if n := g.Metric(t, `cinch_errors_total{gateway="test",class="panic"}`); n != 0 {
			t.Errorf("%s: %.0f panics", name, n)
		}
		held := <-memory[name]
		quarter := len(held) / 4
		second, end := mean(held[quarter:2*quarter]), mean(held[3*quarter:])
		t.Logf("%-9s %.0f MB in the second quarter, %.0f MB in the last; %.0f values opened, %.0f histories, %.0f errors", name, second/1e6, end/1e6,
			g.Metric(t, "cinch_values_opened_total"), g.Metric(t, "cinch_link_streams_total"), g.Metric(t, "cinch_errors_total"))
		if strings.HasSuffix(name, " far") && (g.Metric(t, "cinch_values_opened_total") == 0 || g.Metric(t, "cinch_values_sealed_total") == 0) {
			t.Errorf("%s: nothing goes compressed between the two", name)
		}
		if end > 1.3*second+128e6 {
			t.Errorf("%s: memory grows: %.0f MB, then %.0f MB", name, second/1e6, end/1e6)
		}
	}
}

// forgets returns a message that makes a history drop its records while it encodes the message.
var forgets = sync.OnceValue(codectest.ForgottenRecords)

// metrics returns a message of about size bytes such as monitoring systems send: repeated names with new
// values. One in a hundred is the message of forgets.
func metrics(r *rand.Rand, size int) (all []byte) {
	if r.IntN(100) == 0 {
		return forgets()
	}
	for i := r.IntN(50); len(all) < size; i++ {
		name := fmt.Sprintf("http_requests_%d", i%97)
		series := append([]byte{1<<3 | 2, byte(len(name))}, name...)
		series = binary.LittleEndian.AppendUint64(append(series, 2<<3|1), uint64(r.IntN(100))<<40)
		series = binary.AppendUvarint(append(series, 3<<3), uint64(1_790_000_000_000+i))
		all = append(append(all, 1<<3|2, byte(len(series))), series...)
	}
	return all
}

// sizeOf returns a size from 100 B to 200 KB, mostly small.
func sizeOf(r *rand.Rand) int {
	return 100 << min(r.IntN(12), r.IntN(15))
}

func dialCalls(t *testing.T, addr string) *grpc.ClientConn {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		panic(err)
	}
	if t != nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn
}

var both = &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}

// callOnce sends a message n times in one call and compares each echo.
func callOnce(t *testing.T, conn *grpc.ClientConn, n int, message []byte, count *tally) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // only to end a hanging call
	defer cancel()
	err := func() error {
		s, err := conn.NewStream(ctx, both, "/soak.Echo/Both", rawCodec)
		for i := 0; i < n && err == nil; i++ {
			if err = s.SendMsg(&message); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			var got []byte
			if err = s.RecvMsg(&got); err == nil && !bytes.Equal(got, message) {
				t.Errorf("message %d of a call: %d bytes came back that differ from the %d sent", i, len(got), len(message))
			}
			count.bytes.Add(int64(len(got)))
		}
		if err != nil {
			return err
		}
		_ = s.CloseSend()
		var none []byte
		if err = s.RecvMsg(&none); errors.Is(err, io.EOF) {
			return nil
		}
		return fmt.Errorf("the end: %w", err)
	}()
	switch status.Code(err) {
	case codes.OK:
	case codes.ResourceExhausted, codes.Unavailable:
		count.refused.Add(1)
	default:
		t.Errorf("a call of %d messages of %d bytes: %v", n, len(message), err)
	}
}

// cancelCall starts a call, sends up to three messages, reads nothing, and cancels it.
func cancelCall(ctx context.Context, conn *grpc.ClientConn, r *rand.Rand, n *tally) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Millisecond)
	defer cancel()
	if s, err := conn.NewStream(ctx, both, "/soak.Echo/Both", rawCodec); err == nil {
		for range r.IntN(4) { // with none, only headers are sent
			m := metrics(r, sizeOf(r))
			_ = s.SendMsg(&m)
		}
		if r.IntN(2) == 0 {
			_ = s.CloseSend()
		}
		<-ctx.Done()
	}
	n.cancelled.Add(1)
}

// post sends a body, with or without its length, and compares the echo.
func post(t *testing.T, c *http.Client, addr string, r *rand.Rand, n *tally) {
	body := metrics(r, sizeOf(r))
	var from io.Reader = bytes.NewReader(body)
	if r.IntN(2) == 0 {
		from = io.MultiReader(from) // hides the length
	}
	resp, err := c.Post("http://"+addr+"/echo", "application/x-protobuf", from)
	if err != nil {
		n.refused.Add(1)
		return
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	n.bytes.Add(int64(len(got)))
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable || err != nil:
		n.refused.Add(1)
	case resp.StatusCode != http.StatusOK || !bytes.Equal(got, body):
		t.Errorf("%s: %d bytes came back that differ from the %d sent", resp.Status, len(got), len(body))
	}
}

// cancelPost cancels a request in the middle of its body or while it reads slowly.
func cancelPost(ctx context.Context, c *http.Client, addr string, r *rand.Rand, n *tally) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/echo", bytes.NewReader(metrics(r, sizeOf(r))))
	if resp, err := c.Do(req); err == nil {
		for err == nil && ctx.Err() == nil {
			_, err = io.CopyN(io.Discard, resp.Body, 500)
			time.Sleep(5 * time.Millisecond)
		}
		resp.Body.Close()
	}
	n.cancelled.Add(1)
}

// rawFrames sends HTTP/2 frames in any order, some of them damaged, and closes or half-closes the
// connection.
func rawFrames(ctx context.Context, addr string, r *rand.Rand, n *tally) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	var out, block bytes.Buffer
	f, h := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
	f.AllowIllegalWrites = true
	out.WriteString(http2.ClientPreface)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(r.IntN(1 << 17))})
	fields := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "a"}, {Name: ":path", Value: "/soak.Echo/Both"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}
	for i, id := 0, uint32(1); i < 30; i++ {
		switch any := uint32(r.IntN(int(id) + 3)); r.IntN(9) {
		case 0, 1, 2:
			block.Reset()
			for _, field := range fields {
				_ = h.WriteField(field)
			}
			_ = h.WriteField(hpack.HeaderField{Name: "x", Value: string(bytes.Repeat([]byte("y"), r.IntN(200)*r.IntN(200)))})
			b := block.Bytes()
			cut := min(len(b), 16000)
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:cut], EndHeaders: cut == len(b), EndStream: r.IntN(8) == 0})
			for b = b[cut:]; len(b) > 0; b = b[cut:] {
				cut = min(len(b), 16000)
				_ = f.WriteContinuation(id, cut == len(b), b[:cut])
			}
			id += 2
		case 3, 4:
			_ = f.WriteData(any, r.IntN(4) == 0, append([]byte{0, 0, 0, 1, 0}, make([]byte, r.IntN(2)*256)...))
		case 5:
			_ = f.WriteWindowUpdate(any, uint32(r.IntN(1<<20)))
		case 6:
			_ = f.WriteRSTStream(any, http2.ErrCode(r.IntN(16)))
		case 7:
			_ = f.WritePriority(any, http2.PriorityParam{StreamDep: uint32(r.IntN(9)), Weight: 3})
		case 8:
			_ = f.WritePing(false, [8]byte{})
		}
	}
	b := out.Bytes()
	if r.IntN(3) == 0 {
		b[24+r.IntN(len(b)-24)] ^= byte(1 + r.IntN(255))
	}
	_, _ = c.Write(b[:len(b)-r.IntN(2)*r.IntN(len(b)/2)])
	if r.IntN(2) == 0 {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Duration(r.IntN(500)) * time.Millisecond))
	_, _ = io.Copy(io.Discard, c)
	n.cancelled.Add(1)
}

func echoCalls(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxConcurrentStreams(100), grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		for {
			var m []byte
			if err := s.RecvMsg(&m); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	}))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func echoBodies(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: &p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(body)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}
