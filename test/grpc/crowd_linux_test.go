package grpc

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/bench/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// manyStreams are open at once.
const manyStreams = 1000

// TestManyStreams: all are open at the same time, and each still answers.
func TestManyStreams(t *testing.T) {
	testenv.Full(t)
	eachRoute(t, nil, func(t *testing.T, _ route, e *echoServer, conn *grpc.ClientConn) {
		message := strings.Repeat("a message of some length. ", 40)
		streams := make([]grpc.ClientStream, manyStreams)
		ctx := within(t)
		for i := range streams {
			var err error
			if streams[i], err = openEcho(ctx, conn); err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
			if err := roundTrip(streams[i], message); err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
		}
		if n := e.open.Load(); n != manyStreams {
			t.Errorf("%d streams are open at the server", n)
		}
		var wg sync.WaitGroup
		for _, s := range streams {
			wg.Go(func() {
				for range 3 {
					if err := roundTrip(s, message); err != nil {
						t.Error(err)
						return
					}
				}
				_ = s.CloseSend()
			})
		}
		wg.Wait()
		testenv.Eventually(t, "the server's streams end", func() bool { return e.open.Load() == 0 })
	})
}

const (
	floodBytes = 64 << 10 // a message of the flood
	// gatewayBytes is what a gateway may take with a thousand streams that nobody reads: its
	// budget of 256 MiB, 64 KiB a stream, and what Go itself and garbage take.
	gatewayBytes = 480 << 20
)

// smallWindows keep grpc-go's client from guessing a window of up to 16 MB for each stream:
// this process would then hold what the gateway must not.
var smallWindows = []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10), grpc.WithStaticConnWindowSize(64 << 20)}

// TestSlowReaders: a server that floods, clients that do not read. Each stream's flow has
// to stop at the server, and others on the same connections go on.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	for _, r := range routes[1:] {
		t.Run(r.name, func(t *testing.T) {
			if r.gateways == 2 {
				testenv.Full(t)
			}
			f := &flood{message: payload{Gen: "random", Len: floodBytes}.bytes()}
			addr := serve(t, grpc.NewServer(grpc.UnknownServiceHandler(f.handle), grpc.ForceServerCodecV2(rawgrpc.Codec{})))
			chain := r.start(t, addr, nil)
			conn := (*certificates)(nil).dial(t, chain[0].Addr, smallWindows...)
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			for i := range manyStreams {
				stream, err := conn.NewStream(ctx, bidi, "/cinch.test.Flood/Flood", grpc.ForceCodecV2(rawgrpc.Codec{}))
				if err != nil {
					t.Fatalf("stream %d: %v", i, err)
				}
				_ = stream.CloseSend()
			}
			sent := f.untilStill(t)
			t.Logf("%s: the server sent %d KB a stream; gateways' peak: %s", r.name, sent>>10/manyStreams, peaks(t, chain))
			for _, g := range chain {
				if rss := testenv.ProcessMemory(t, g.Pid(), "VmHWM"); rss > gatewayBytes {
					t.Errorf("a gateway took %d MB", rss>>20)
				}
			}
			// On a connection of its own: servers may limit the streams of one to a thousand.
			other := (*certificates)(nil).dial(t, chain[0].Addr)
			reader, err := other.NewStream(ctx, bidi, "/cinch.test.Flood/Flood", grpc.ForceCodecV2(rawgrpc.Codec{}))
			if err != nil {
				t.Fatal(err)
			}
			readSome(t, reader, f.message)
			cancel()
			testenv.Eventually(t, "the server's streams end", func() bool { return f.open.Load() == 0 })
		})
	}
}

// readSome reads 5 MB, to see that readers are served among those that do not read.
func readSome(t *testing.T, stream grpc.ClientStream, want []byte) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		for range 5 << 20 / floodBytes {
			var in []byte
			if err := stream.RecvMsg(&in); err != nil || string(in) != string(want) {
				done <- fmt.Errorf("a message of %d bytes, %v", len(in), err)
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("a stream that reads is held up by those that do not")
	}
}

// flood sends messages for as long as the client lives.
type flood struct {
	message []byte
	sent    atomic.Int64
	open    atomic.Int64
}

func (f *flood) handle(_ any, stream grpc.ServerStream) error {
	f.open.Add(1)
	defer f.open.Add(-1)
	for {
		if err := stream.SendMsg(&f.message); err != nil {
			return err
		}
		f.sent.Add(int64(len(f.message)))
	}
}

// untilStill returns how much was sent when no more was sent for a while. A flow that
// nobody controls never stops.
func (f *flood) untilStill(t *testing.T) int64 {
	t.Helper()
	last := int64(-1)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		time.Sleep(700 * time.Millisecond)
		now := f.sent.Load()
		if now == last {
			return now
		}
		last = now
	}
	t.Errorf("the server still sends to clients that do not read: %d MB", last>>20)
	return last
}

func peaks(t *testing.T, chain []*testenv.GatewayServer) string {
	t.Helper()
	out := make([]string, len(chain))
	for i, g := range chain {
		out[i] = fmt.Sprintf("%d MB", testenv.ProcessMemory(t, g.Pid(), "VmHWM")>>20)
	}
	return strings.Join(out, ", ")
}
