package pairs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	_ "github.com/cinch-layer/cinch/codec/grpccodec/all" // clients and servers read all encodings
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
)

func TestGRPC(t *testing.T) {
	compareAll(t, overGRPC, allCodings, func(s *sequence) float64 {
		if s.proto {
			return max(shareOfProto, overLinks(s))
		}
		return overLinks(s)
	})
}

func overGRPC(t *testing.T, s *sequence) (one, pair, links int64) {
	server := startGRPC(t, s)
	encodings, rules := "[zstd]", "[{setting: zstd-3}]"
	if s.proto {
		encodings, rules = "[cinch-proto, zstd]", "[{setting: cinch-proto}, {setting: zstd-3}]"
	}
	requests := startWire(t, server)
	replies := startWire(t, gateway(t, "grpc", "grpc://"+requests.Addr, "upstream_encodings: "+encodings+", rules: "+rules))
	var sent, received func() (up, down int64)
	s.play(t, s.atOnce, func() { sent, received = requests.mark(), replies.mark() }, s.grpcClients(t, replies.Addr), once)
	up, _ := sent()
	_, down := received()

	between := startWire(t, gateway(t, "grpc", "grpc://"+server, "peers: true, rules: "+rules))
	near := gateway(t, "grpc", "grpc://"+between.Addr, "rules: "+rules)
	return up + down, s.playLinked(t, s.atOnce, between, s.grpcClients(t, near)), between.links.Load()
}

// startGRPC starts the server of a sequence.
func startGRPC(t *testing.T, s *sequence) (addr string) {
	answer := func(_ any, call grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(call)
		md, _ := metadata.FromIncomingContext(call.Context())
		var exchanges []exchange
		if method == "/test.Pairs/Exchange" {
			c, _ := strconv.Atoi(md.Get("x-client")[0])
			i, _ := strconv.Atoi(md.Get("x-exchange")[0])
			exchanges = s.clients[c][i:]
		} else {
			exchanges = []exchange{{}}
		}
		for i := 0; ; i++ {
			var got []byte
			if err := call.RecvMsg(&got); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if !bytes.Equal(got, exchanges[i].request) {
				return status.Errorf(codes.DataLoss, "the server got %d of %d bytes", len(got), len(exchanges[i].request))
			}
			if err := call.SendMsg(&exchanges[i].reply); err != nil {
				return err
			}
		}
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(answer), grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.MaxRecvMsgSize(64<<20))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// grpcClients returns a function that makes the clients of a sequence, each with one connection.
func (s *sequence) grpcClients(t *testing.T, addr string) func(c int) client {
	options := []grpc.CallOption{grpc.ForceCodecV2(rawgrpc.Codec{}), grpc.MaxCallRecvMsgSize(64 << 20)}
	if s.coding != "" {
		options = append(options, grpc.UseCompressor(s.coding))
	}
	return func(c int) client {
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(options...))
		if err != nil {
			t.Fatal(err)
		}
		outgoing := func(i int) context.Context {
			return metadata.AppendToOutgoingContext(t.Context(), "x-client", fmt.Sprint(c), "x-exchange", fmt.Sprint(i))
		}
		one := client{
			prepare: func() {
				var in, out []byte
				if err := conn.Invoke(t.Context(), "/test.Pairs/Prepare", &in, &out); err != nil {
					t.Error(err)
				}
			},
			exchange: func(i int, x exchange) {
				var reply []byte
				if err := conn.Invoke(outgoing(i), "/test.Pairs/Exchange", &x.request, &reply); err != nil || !bytes.Equal(reply, x.reply) {
					t.Errorf("exchange %d of client %d: the client got %d of %d bytes, %v", i, c, len(reply), len(x.reply), err)
				}
			},
			close: func() { _ = conn.Close() },
		}
		if s.stream {
			one.stream = func(first int, exchanges []exchange) {
				call, err := conn.NewStream(outgoing(first), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test.Pairs/Exchange")
				for i := 0; err == nil && i < len(exchanges); i++ {
					var reply []byte
					if err = call.SendMsg(&exchanges[i].request); err == nil {
						err = call.RecvMsg(&reply)
					}
					if err == nil && !bytes.Equal(reply, exchanges[i].reply) {
						t.Errorf("exchange %d of client %d: the client got %d of %d bytes", i, c, len(reply), len(exchanges[i].reply))
					}
				}
				if err == nil {
					_ = call.CloseSend()
					err = call.RecvMsg(new([]byte))
				}
				if err != io.EOF {
					t.Errorf("client %d: %v", c, err)
				}
			}
		}
		return one
	}
}
