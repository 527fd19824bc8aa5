package serve

import (
	"context"
	"log/slog"
	"net"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
	"github.com/cinch-layer/cinch/internal/gateway/http"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/gateway/postgres"
	"github.com/cinch-layer/cinch/internal/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/trace"
	"github.com/cinch-layer/cinch/internal/whatif"
)

// shared is what all gateways of a process share, and makes them.
type shared struct {
	options *Options
	started *config.Config
	log     *slog.Logger
	engine  *codec.Engine

	// One budget a direction: a request that waits for bytes never keeps a
	// reply from leaving, nor the reverse.
	requests, replies *gateway.Budget

	trainer *autodict.Trainer // of dictionaries
	whatIf  *whatif.Budget
	tracer  *trace.Tracer // nil: nothing is traced

	topology mongo.Topology // which gateways stand for which members of replica sets
	mongo    []*mongo.Gateway
	links    []*link.Endpoint
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
	s := &shared{options: o, started: cfg, log: log, engine: engine, requests: gateway.NewBudget(half), replies: gateway.NewBudget(half)}
	s.trainer, s.whatIf = s.newTrainer(), whatif.NewBudget(whatif.DefaultCores)
	s.tracer, err = newTracer(o.Version, cfg.Traces, log)
	return s, cfg.Invalid("traces.endpoint", err)
}

// running is one gateway at work.
type running struct {
	name     string
	upstream gateway.Upstream
	others   []gateway.Upstream // servers that do as well
	listener net.Listener       // nil until listen
	sentinel *pendingListener   // for clients of Sentinels; nil: none is wanted
	told     func()             // logs what depends on the listener's address; or nil
	stats    *gateway.Stats
	effort   *gateway.Effort
	log      *slog.Logger
	gateway  protocolGateway

	// Of a gateway to a store; nil for others.
	keeper *keeper
	auto   *autodict.Manager // says which policy is in force
	packer *packer
	whatIf *whatIf

	postgres *postgres.Gateway // nil for other protocols

	tunnelSetting string // of an end of a tunnel; "" for others

	// Of a gateway that compresses messages on the wire; nil for others.
	messages messageGateway
	kinds    *autodict.Messages

	http *http.Gateway // nil for other protocols
	grpc *grpc.Gateway // likewise
}

// protocolGateway is what the gateways of all protocols offer.
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

// close frees what is left of a gateway that has ended, or never began.
func (r *running) close() {
	if r.listener != nil {
		_ = r.listener.Close()
	}
	if r.sentinel != nil && r.sentinel.Listener != nil {
		_ = r.sentinel.Close()
	}
	r.whatIf.close()
	if r.keeper != nil {
		r.keeper.close()
	}
}
