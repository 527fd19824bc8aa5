package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	tnt "github.com/tarantool/go-tarantool/v2"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/rig/tarantool"
)

// value is JSON of about a kilobyte.
var value = `{"items":[` + strings.Repeat(`{"sku":"b-1187","title":"a kettle of steel","price":{"amount":2990,"currency":"EUR"}},`, 12) + `null]}`

// redisClient starts a redis-server and a gateway in front of it whose rule compresses what the client writes.
func (w *walker) redisClient() (*redis.Client, *recorder, error) {
	server, err := rig.Redis(w.dir)
	if err != nil {
		return nil, nil, err
	}
	w.started = append(w.started, server)
	addr, r, err := w.serve("redis", "redis://"+server.Addr, `rules: [{name: all, setting: zstd-1}]`)
	if err != nil {
		return nil, nil, err
	}
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1}), r, nil
}

func (w *walker) redisSet() ([]uint32, error) {
	client, r, err := w.redisClient()
	if err != nil {
		return nil, err
	}
	return r.shortest(func() error { return client.Set(context.Background(), "menu:1", value, 0).Err() })
}

func (w *walker) redisGet() ([]uint32, error) {
	client, r, err := w.redisClient()
	if err != nil {
		return nil, err
	}
	if err := client.Set(context.Background(), "menu:1", value, 0).Err(); err != nil {
		return nil, err
	}
	return r.shortest(func() error {
		got, err := client.Get(context.Background(), "menu:1").Result()
		if err == nil && got != value {
			err = fmt.Errorf("another value: %q", got)
		}
		return err
	})
}

// mongoFind finds a document of a kilobyte. The client asks for zstd, and the server is near, so that
// messages to it are uncompressed.
func (w *walker) mongoFind() ([]uint32, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	data := filepath.Join(w.dir, "mongod")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	server, err := rig.StartListener("mongod", addr, w.dir, rig.Mongod(), "--port", port, "--bind_ip", "127.0.0.1", "--dbpath", data,
		"--wiredTigerCacheSizeGB", "0.25", "--logpath", filepath.Join(w.dir, "mongod.log"), "--setParameter", "diagnosticDataCollectionEnabled=false")
	if err != nil {
		return nil, err
	}
	w.started = append(w.started, server)
	gateway, r, err := w.serve("mongo", "mongodb://"+addr, "")
	if err != nil {
		return nil, err
	}
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + gateway + "/?directConnection=true&maxPoolSize=1&compressors=zstd&heartbeatFrequencyMS=3600000"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Disconnect(context.Background()) }()
	menus := client.Database("shop").Collection("menus")
	if _, err := menus.InsertOne(context.Background(), bson.D{{Key: "_id", Value: 1}, {Key: "text", Value: value}}); err != nil {
		return nil, err
	}
	return r.shortest(func() error { return menus.FindOne(context.Background(), bson.D{{Key: "_id", Value: 1}}).Err() })
}

// tarantoolReplace replaces a tuple whose field of a kilobyte a rule compresses.
func (w *walker) tarantoolReplace() ([]uint32, error) {
	ctx := context.Background()
	server, err := tarantool.Start(ctx, tarantool.Options{Dir: filepath.Join(w.dir, "tarantool"), Memory: 64 << 20, Core: -1, Lua: `
		box.schema.space.create('menus', {format = {{'id', 'unsigned'}, {'text', 'string'}}}):create_index('primary')`})
	if err != nil {
		return nil, err
	}
	w.started = append(w.started, server)
	addr, r, err := w.serve("tarantool", "tarantool://"+server.Addr, `rules: [{name: all, space: menus, field: text, setting: zstd-1}]`)
	if err != nil {
		return nil, err
	}
	client, err := tarantool.Connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	entered, err := r.shortest(func() error {
		_, err := client.Do(tnt.NewReplaceRequest("menus").Tuple([]any{1, value})).Get()
		return err
	})
	if err != nil {
		return nil, err
	}
	stored, err := tarantool.Eval[string](ctx, server, "return box.space.menus:get(1).text")
	if err == nil && !envelope.IsSealed([]byte(stored)) {
		err = errors.New("the value is not compressed")
	}
	return entered, err
}

// httpPost posts a kilobyte to a server that reads zstd, over HTTP/1.1.
func (w *walker) httpPost() ([]uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Content-Encoding") != "zstd" {
			http.Error(rw, "the body is not compressed", http.StatusBadRequest)
		}
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	addr, r, err := w.serve("http", "http://"+l.Addr().String(), "upstream_encodings: [zstd]\n    rules: [{name: all, path: /menus, setting: zstd-1}]")
	if err != nil {
		return nil, err
	}
	return r.shortest(func() error {
		reply, err := http.Post("http://"+addr+"/menus", "application/json", strings.NewReader(value))
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err == nil && reply.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", reply.Status, text)
		}
		return err
	})
}

// grpcUnary calls a server of grpc-go through one gateway without rules: its messages pass unchanged.
func (w *walker) grpcUnary() ([]uint32, error) { return w.grpcCall("upstream_encodings: [gzip]") }

// grpcUnaryRule makes a rule compress a message that the client sends uncompressed.
func (w *walker) grpcUnaryRule() ([]uint32, error) {
	if err := grpccodec.Register("zstd"); err != nil {
		return nil, err
	}
	var saw compressedMessages
	entered, err := w.grpcCall("upstream_encodings: [zstd]\n    rules: [{name: all, service: shop.Menus, direction: request, setting: zstd-1}]", grpc.StatsHandler(&saw))
	if err == nil && saw.Load() < warm {
		err = fmt.Errorf("%d messages came compressed", saw.Load())
	}
	return entered, err
}

// compressedMessages counts the compressed messages that a grpc-go server receives.
type compressedMessages struct{ atomic.Int64 }

func (*compressedMessages) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}

func (c *compressedMessages) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok && in.CompressedLength < in.Length {
		c.Add(1)
	}
}

func (*compressedMessages) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

func (*compressedMessages) HandleConn(context.Context, stats.ConnStats) {}

// grpcCall calls an echo server of grpc-go through one gateway.
func (w *walker) grpcCall(config string, o ...grpc.ServerOption) ([]uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o = append(o, grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		return stream.SendMsg(&message)
	}))
	server := grpc.NewServer(o...)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	addr, r, err := w.serve("grpc", "grpc://"+l.Addr().String(), config)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{})))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return r.shortest(func() error {
		request, reply := []byte(value), []byte(nil)
		return conn.Invoke(context.Background(), "/shop.Menus/Get", &request, &reply)
	})
}

// pack compresses a store's values. It records the middle half of the run.
func (w *walker) pack() ([]uint32, error) {
	server, err := rig.Redis(w.dir)
	if err != nil {
		return nil, err
	}
	w.started = append(w.started, server)
	client := server.Client()
	defer func() { _ = client.Close() }()
	pipe := client.Pipeline()
	for i := range 20_000 {
		pipe.Set(context.Background(), fmt.Sprintf("menu:%d", i), value, 0)
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		return nil, err
	}
	dial, err := w.record()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(w.binary, "pack", "redis://"+server.Addr, "--rule", "key=menu:*,setting=zstd-1")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var r *recorder
	for r == nil {
		if r, err = dial(); err != nil {
			time.Sleep(time.Millisecond)
		}
	}
	var all [][]uint32
	for {
		entered, err := r.next()
		if err != nil { // it has ended
			break
		}
		all = append(all, entered)
		time.Sleep(20 * time.Millisecond)
	}
	if len(all) < 10 {
		return nil, fmt.Errorf("it ended after %d recordings", len(all))
	}
	return slices.Concat(all[len(all)/4 : len(all)*3/4]...), nil
}
