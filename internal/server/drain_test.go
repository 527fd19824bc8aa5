package server

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
)

// everyGateway has one gateway of each kind, without reachable upstreams.
const everyGateway = `admin: {listen: off}
drain_timeout: 20s
gateways:
  - {name: redis, protocol: redis, listen: '127.0.0.1:0', upstream: 'redis://127.0.0.1:1', rules: [{setting: lz4}]}
  - {name: cluster, protocol: redis, listen: '127.0.0.1:0', upstream: 'redis+cluster://127.0.0.1:1', rules: [{setting: lz4}]}
  - {name: sentinels, protocol: redis, listen: '127.0.0.1:0', sentinel: '127.0.0.1:0', upstream: 'redis+sentinel://127.0.0.1:1/main', rules: [{setting: lz4}]}
  - {name: mongo, protocol: mongo, listen: '127.0.0.1:0', upstream: 'mongodb://127.0.0.1:1', sample: true}
  - {name: tarantool, protocol: tarantool, listen: '127.0.0.1:0', upstream: 'tarantool://127.0.0.1:1', rules: [{space: a, field: b, setting: lz4}]}
  - {name: postgres, protocol: postgres, listen: '127.0.0.1:0', upstream: 'postgres://127.0.0.1:1'}
  - {name: grpc, protocol: grpc, listen: '127.0.0.1:0', upstream: 'grpc://127.0.0.1:1', sample: true}
  - {name: near, protocol: tunnel, listen: '127.0.0.1:0', upstream: '127.0.0.1:1'}
  - {name: far, protocol: tunnel-exit, listen: '127.0.0.1:0', upstream: '127.0.0.1:1'}
`

// A process that is told to stop while it starts does so, whether the start or the drain reaches a gateway first.
// The race detector checks the rest.
func TestDrainWhileStarting(t *testing.T) {
	for round := range 10 {
		p, err := New(Options{
			Load: func() (*config.Config, error) { return config.Parse("", []byte(everyGateway), nil) },
			Log:  io.Discard,
			Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, drain := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(round)*10*time.Microsecond, drain)
		if err := p.Run(ctx, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
