package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/test/testenv"
)

// unaryAllocs and unaryBytes limit what a unary call allocates, including its share of two connections. The bytes are
// those of strings in headers and of HEADERS frames.
const (
	unaryAllocs = 12
	unaryBytes  = 400
)

// rawPeer is one end of an HTTP/2 connection. It does not allocate memory for a message.
type rawPeer struct {
	net.Conn
	out []byte // HEADERS, DATA and perhaps trailers; send sets their stream
	ids []int  // offsets of the stream's number in out
	in  [32 << 10]byte

	onHeaders func() // called when headers have come without a body
	await     func() // called between headers and message, unless nil: then they are sent together
}

// newRawPeer sends preface and settings. The peer sends messages with the given header fields and trailers.
func newRawPeer(t testing.TB, c net.Conn, preface string, message []byte, header, trailer []string) *rawPeer {
	p := &rawPeer{Conn: c}
	var b, block bytes.Buffer
	b.WriteString(preface)
	fr := xhttp2.NewFramer(&b, nil)
	_ = fr.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1 << 30})
	_ = fr.WriteWindowUpdate(0, 1<<30)
	if _, err := c.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSize(0) // so that a block can be used for each stream
	encode := func(fields []string) []byte {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return bytes.Clone(block.Bytes())
	}
	b.Reset()
	add := func(write func() error) {
		p.ids = append(p.ids, b.Len()+5)
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	h := encode(header)
	add(func() error {
		return fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: h, EndHeaders: true})
	})
	add(func() error { return fr.WriteData(1, len(trailer) == 0, message) })
	if len(trailer) > 0 {
		h := encode(trailer)
		add(func() error {
			return fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: h, EndHeaders: true, EndStream: true})
		})
	}
	p.out = bytes.Clone(b.Bytes())
	return p
}

// send sends a message on a stream.
func (p *rawPeer) send(stream uint32) error {
	for _, at := range p.ids {
		binary.BigEndian.PutUint32(p.out[at:], stream)
	}
	out := p.out
	if p.await != nil {
		at := p.ids[1] - 5
		if _, err := p.Write(out[:at]); err != nil {
			return err
		}
		p.await()
		out = out[at:]
	}
	_, err := p.Write(out)
	return err
}

// next reads until a stream has ended, and returns its number.
func (p *rawPeer) next() (uint32, error) {
	for {
		if _, err := io.ReadFull(p, p.in[:9]); err != nil {
			return 0, err
		}
		n, kind, flags := int(p.in[0])<<16|int(p.in[1])<<8|int(p.in[2]), xhttp2.FrameType(p.in[3]), xhttp2.Flags(p.in[4])
		stream := binary.BigEndian.Uint32(p.in[5:])
		if _, err := io.ReadFull(p, p.in[:n]); err != nil {
			return 0, err
		}
		switch {
		case kind == xhttp2.FrameSettings && !flags.Has(xhttp2.FlagSettingsAck):
			if _, err := p.Write([]byte{0, 0, 0, byte(xhttp2.FrameSettings), byte(xhttp2.FlagSettingsAck), 0, 0, 0, 0}); err != nil {
				return 0, err
			}
		case (kind == xhttp2.FrameData || kind == xhttp2.FrameHeaders) && flags.Has(xhttp2.FlagDataEndStream):
			return stream, nil
		case kind == xhttp2.FrameHeaders && p.onHeaders != nil:
			p.onHeaders()
		}
	}
}

// startHop starts a gateway between a server that answers with a message and a client that sends it. The call makes
// that many calls at once. Neither client nor server allocates memory. If apart, the client sends a message only when
// its headers have reached the server.
func startHop(t testing.TB, mode LinkMode, apart bool) (call func(atOnce int)) {
	message := frame(false, payload(1000))
	var onHeaders, await func()
	if apart {
		come := make(chan struct{}, 1)
		onHeaders, await = func() { come <- struct{}{} }, func() { <-come }
	}
	addr := startRawPeer(t, message, onHeaders)
	g := startGateway(t, "grpc://"+addr, func(c *Config) { c.linker, c.Link = &tags{}, mode })
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p := newRawPeer(t, c, xhttp2.ClientPreface, message, []string{
		":method", "POST", ":scheme", "http", ":path", "/test.Echo/Unary", ":authority", "test", "content-type", "application/grpc", "te", "trailers",
	}, nil)
	p.await = await
	stream := uint32(1)
	return func(atOnce int) {
		for range atOnce {
			if err := p.send(stream); err != nil {
				t.Fatal(err)
			}
			stream += 2
		}
		for range atOnce {
			if ended, err := p.next(); err != nil || ended == 0 {
				t.Fatal(ended, err)
			}
		}
	}
}

// cost returns how often f allocates and how many bytes. It is the least of several rounds: other goroutines allocate,
// too, and memory is not reused if a goroutine ends late.
func cost(rounds, runs int, f func()) (allocs, bytes int) {
	allocs, bytes = math.MaxInt, math.MaxInt
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			f()
		}
		runtime.ReadMemStats(&after)
		allocs = min(allocs, int(after.Mallocs-before.Mallocs)/runs)
		bytes = min(bytes, int(after.TotalAlloc-before.TotalAlloc)/runs)
	}
	return allocs, bytes
}

// A unary call whose request and reply arrive in one piece each allocates little, also if the gateway would open links.
func TestAllocationsOfAUnaryCall(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("the race detector allocates, too")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection drops unused memory
	for _, mode := range []LinkMode{NoLink, LinkDefault} {
		calls := startHop(t, mode, false)
		if allocs, bytes := cost(20, 50, func() { calls(1) }); allocs > unaryAllocs || bytes > unaryBytes {
			t.Errorf("mode %d: %d allocations of %d bytes a call", mode, allocs, bytes)
		}
	}
}

// A call whose message comes after its headers allocates as little.
func TestAllocationsOfLateMessages(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("the race detector allocates, too")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	calls := startHop(t, LinkDefault, true)
	if allocs, bytes := cost(20, 50, func() { calls(1) }); allocs > unaryAllocs || bytes > unaryBytes {
		t.Errorf("%d allocations of %d bytes a call", allocs, bytes)
	}
}

// A thousand calls at once allocate little more than one after the other, except for the first thousand.
func TestAllocationsOfManyCallsAtOnce(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("the race detector allocates, too")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const atOnce, most = 1000, 1536
	calls := startHop(t, LinkDefault, false)
	if _, bytes := cost(10, 1, func() { calls(atOnce) }); bytes > most*atOnce {
		t.Errorf("%d bytes a call, want %d at most", bytes/atOnce, most)
	}
}

// startRawPeer starts a server that answers requests with a message.
func startRawPeer(t testing.TB, message []byte, onHeaders func()) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveRawPeer(t, c, message, onHeaders)
		}
	}()
	return l.Addr().String()
}

func serveRawPeer(t testing.TB, c net.Conn, message []byte, onHeaders func()) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface))); err != nil {
		return
	}
	p := newRawPeer(t, c, "", message, []string{":status", "200", "content-type", "application/grpc"}, []string{"grpc-status", "0"})
	p.onHeaders = onHeaders
	for {
		stream, err := p.next()
		if err != nil {
			return
		}
		if err := p.send(stream); err != nil {
			return
		}
	}
}

// Data read ahead of a body for a connection that turns out to accept no more requests goes back to the
// buffer pool.
func TestBuffersOfUnusableConnections(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("under the race detector sync.Pool drops at random")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each processor has its own pools
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, "http://server:1", nil)
		defer g.pool.Close()
		g.pool.dialer.open = func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return near, nil
		}
		h, shared := &handler{shared: &g.shared}, clientPool{g.pool, g.pool.Client(&net.TCPAddr{})}
		const tries, pieceBytes = 50, 16 << 10
		allocated := func(length int64) int {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range tries {
				body := &hereBody{taken: func() { g.pool.Conns()[0].Conn.SetDoNotReuse() }}
				body.Reset([]byte("hello"))
				r := newRequest(t.Context(), t)
				r.Body, r.ContentLength = body, length
				c := call{handler: h, clientPool: shared, r: r, terms: noTerms, attempts: 1}
				c.replay.begin(body, 1000, &replayMemory{})
				a, _, err := c.try()
				if !unusable(err) {
					t.Fatal(err)
				}
				c.end(a)
				c.replay.close()
				synctest.Wait() // the connection has ended
			}
			runtime.ReadMemStats(&after)
			return int(after.TotalAlloc - before.TotalAlloc)
		}
		allocated(-1) // fills the pool
		without := allocated(0)
		if with := allocated(-1); with-without > tries*pieceBytes/4 {
			t.Errorf("%d requests with bodies take %d bytes more than without", tries, with-without)
		}
	})
}
