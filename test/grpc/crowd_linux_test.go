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

	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// manyStreams is the number of streams that are open at once.
const manyStreams = 1000

// TestManyStreams checks that each of many streams that are open at once still answers.
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
	floodBytes = 64 << 10 // size of a message of the flood
	// gatewayBytes limits a gateway's memory with a thousand streams that no client reads: its budget of
	// 256 MiB, 64 KiB per stream, and the overhead of Go and its garbage.
	gatewayBytes = 480 << 20
)

// smallWindows keep grpc-go's client from estimating a window of up to 16 MB for each stream: this process
// would then hold the bytes that the gateway must not hold.
var smallWindows = []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10), grpc.WithStaticConnWindowSize(64 << 20)}

// TestSlowReaders has a server that floods clients that do not read. Flow control must stop each stream at
// the server, while other streams on the same connections continue.
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
			// This stream needs another connection: servers may limit a connection to a thousand streams.
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

// readSome reads 5 MB, to check that a reading client is served beside those that do not read.
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

// flood sends messages on each stream until the client is gone.
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

// untilStill waits until no more is sent for a while and returns the number of messages sent. Without flow
// control it never stops.
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
