package server

import (
	"cmp"
	"context"
	"log/slog"
	"net"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
	"github.com/cinch-layer/cinch/internal/gateway/http"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/simulate"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
)

// shared holds what all gateways of a process share, and makes the gateways.
type shared struct {
	options *Options
	started *config.Config
	log     *slog.Logger
	engine  *codec.Engine

	// One budget per direction: a request that waits for memory never blocks a reply, nor the reverse.
	requests, replies *memory.Budget

	trainer *dictionary.Trainer // of dictionaries
	whatIf  *simulate.Budget
	tracer  *trace.Tracer // nil: tracing is off

	topology mongo.Topology // which gateways stand for which members of replica sets
	mongo    []*mongo.Gateway
	links    []*link.Endpoint
	lanes    []lanes.Named
	postgres []*postgres.Gateway

	grpcSet   *grpccodec.Set // of all gateways for gRPC and HTTP; nil without one
	grpcCache *grpc.Cache
	grpc      []*grpc.Gateway
}

func newShared(o *Options, cfg *config.Config, log *slog.Logger) (*shared, error) {
	engine, err := o.Zstd.Engine(cfg.Zstd)
	if err != nil {
		return nil, cfg.Invalid("zstd", err)
	}
	half := int64(cfg.Memory.Budget) / 2
	s := &shared{options: o, started: cfg, log: log, engine: engine, requests: memory.NewBudget(half), replies: memory.NewBudget(half)}
	s.trainer, s.whatIf = s.newTrainer(), simulate.NewBudget(cmp.Or(o.whatIfCores, simulate.DefaultCores))
	s.tracer, err = newTracer(o.Version, cfg.Traces, log)
	return s, cfg.Invalid("traces.endpoint", err)
}

// running is one gateway with all that belongs to it.
type running struct {
	name     string
	upstream endpoint.Upstream
	others   []endpoint.Upstream // servers that can serve in the upstream's place
	peerKey  []byte              // nil: none
	listener net.Listener        // nil until listen
	sentinel *pendingListener    // for clients of Sentinels; nil: not configured
	onListen func()              // logs warnings that depend on the listener's address; or nil
	stats    *gateway.Stats
	effort   *gateway.Effort
	log      *slog.Logger
	gateway  protocolGateway

	// For gateways to stores; nil for others.
	store  *storeAccess
	auto   *dictionary.Manager // says which policy is in force
	packer *packer
	whatIf *whatIf

	postgres *postgres.Gateway // nil for other protocols

	tunnelSetting string // of a tunnel's end; "" for others

	// For gateways that compress messages on the wire; nil for others.
	messages messageGateway
	kinds    *sampled.Messages

	http *http.Gateway // nil for other protocols
	grpc *grpc.Gateway // likewise
}

// protocolGateway is the interface of the gateways of all protocols.
type protocolGateway interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// valueGateway is a gateway with rules for values, messageGateway one with rules for messages.
type (
	valueGateway interface {
		protocolGateway
		SetPolicy(*policy.Policy)
	}
	messageGateway interface {
		SetPolicy(*policy.Messages)
	}
)

// close frees what remains of a gateway that has ended, or that never started.
func (r *running) close() {
	if r.listener != nil {
		_ = r.listener.Close()
	}
	if r.sentinel != nil && r.sentinel.Listener != nil {
		_ = r.sentinel.Close()
	}
	r.whatIf.close()
	if r.store != nil {
		r.store.close()
	}
}

// grpcCodecs returns the compressors that gateways for gRPC and HTTP share. The first call makes them.
func (s *shared) grpcCodecs() *grpccodec.Set {
	if s.grpcSet == nil {
		var o grpccodec.Options
		if usesLibzstd(s.engine) {
			o.Zstd = s.options.Zstd.Native()
		}
		s.grpcSet = grpccodec.NewSet(o)
	}
	return s.grpcSet
}

// cache returns the cache of the gateways for gRPC. The first call makes it.
func (s *shared) cache() *grpc.Cache {
	if s.grpcCache == nil {
		s.grpcCache = grpc.NewCache(s.grpcCodecs())
	}
	return s.grpcCache
}
