package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
)

// Ways through two gRPC gateways, with a client and a server that compress nothing.
const (
	grpcColumns = "gRPC gateways, cinch-proto by message"
	grpcPlain3  = "gRPC gateways, plain with history, zstd-3"
	grpcLink3   = "gRPC gateways, cinch-proto with history, zstd-3"
	grpcLink6   = "gRPC gateways, cinch-proto with history, zstd-6"
)

// known tells the gateway that the upstream reads cinch-proto, so that the first call need not find out.
const known = "upstream_encodings: [cinch-proto]"

// grpcLinks holds the link settings of each way's near gateway.
var grpcLinks = map[string]string{
	grpcColumns: known,
	grpcPlain3:  "link: {history: client, setting: zstd-3}",
	grpcLink3:   "link: {history: client, setting: zstd-3}\n    " + known,
	grpcLink6:   "link: {history: client, setting: zstd-6}\n    " + known,
}

func isGRPC(name string) bool { return grpcLinks[name] != "" }

func (b *bench) grpcGateway(w *way, upstream, option, directions, name string) (string, error) {
	setting := "cinch-proto"
	if name == grpcPlain3 {
		setting = "zstd" // towards upstreams without links
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	file, err := b.write(fmt.Sprintf("grpc%d.yaml", len(w.ends)), fmt.Sprintf(
		"admin: {listen: \"off\"}\ngateways:\n  - name: t\n    protocol: grpc\n    listen: %q\n    upstream: \"grpc://%s\"\n    %s\n    rules:\n      - {direction: [%s], min_size: 256, setting: %s}\n",
		addr, upstream, option, directions, setting))
	if err != nil {
		return "", err
	}
	return w.end(addr, filepath.Join(b.dir, "cinch"), "serve", "--config", file)
}

// receiver is a server that answers each message with an empty one, as an ingester does. It compares received
// messages with those sent.
type receiver struct {
	server *grpc.Server
	addr   string

	mu   sync.Mutex
	want []byte
}

var errChanged = errors.New("received a different message than was sent")

func startReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{addr: l.Addr().String()}
	r.server = grpc.NewServer(grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(r.push), grpc.MaxRecvMsgSize(64<<20))
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) push(_ any, stream grpc.ServerStream) error {
	var m []byte
	if err := stream.RecvMsg(&m); err != nil {
		return err
	}
	r.mu.Lock()
	same := bytes.Equal(m, r.want)
	r.mu.Unlock()
	if !same {
		return errChanged
	}
	return stream.SendMsg(&[]byte{})
}

// send makes calls one after the other on one connection.
func (r *receiver) send(addr string, all [][]byte) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{})))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, m := range all {
		r.mu.Lock()
		r.want = m
		r.mu.Unlock()
		var answer []byte
		if err := conn.Invoke(ctx, "/cortex.Ingester/Push", &m, &answer); err != nil {
			return err
		}
	}
	return nil
}
