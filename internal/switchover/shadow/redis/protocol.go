package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Protocol implements shadow.Protocol for Redis. Make it with New.
type Protocol struct {
	commands      map[string]*command
	scratch       string // key
	managesExpiry bool   // the server has the options that the mirror needs to expire keys
	deadlines     deadlines
}

// New asks the control for its commands.
func New(ctx context.Context, target endpoint.Upstream) (*Protocol, error) {
	return newProtocol(ctx, &shadow.Target{Name: "control", Upstream: target})
}

func newProtocol(ctx context.Context, t *shadow.Target) (*Protocol, error) {
	rdb := client(t.Upstream)
	defer rdb.Close()
	commands, err := loadCommands(ctx, rdb)
	switch {
	case isDenied(err):
		return nil, terminal.WithHint(fmt.Errorf("%s: COMMAND: %w", t, err), "allow its user to run COMMAND")
	case err != nil:
		return nil, terminal.WithHint(fmt.Errorf("%s: COMMAND: %w", t, err), shadow.HintReach)
	}
	return &Protocol{
		commands: commands, scratch: "cinch:shadow:" + strconv.FormatInt(started, 36), managesExpiry: commands["expiretime"] != nil, // EXPIRETIME came with 7.0, as those options did
	}, nil
}

// client returns a go-redis client, for requests outside the mirror.
func client(up endpoint.Upstream) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Network: up.Network, Addr: up.Address, Username: up.User, Password: up.Password, TLSConfig: up.TLS,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1,
	})
}

// Reader returns the Reader of a new connection.
func (p *Protocol) Reader() shadow.Reader { return &reader{p: p, db: "0"} }

// ScratchWrite stores the i-th content in the scratch key.
func (p *Protocol) ScratchWrite(i int) *shadow.Operation {
	return p.scratchOperation(shadow.Write, "SET", p.scratch, "content "+strconv.Itoa(i), "EX", "3600")
}

// ScratchRead reads the scratch key.
func (p *Protocol) ScratchRead() *shadow.Operation {
	return p.scratchOperation(shadow.Read, "GET", p.scratch)
}

// ScratchClean removes the scratch key.
func (p *Protocol) ScratchClean() *shadow.Operation {
	return p.scratchOperation(shadow.Write, "DEL", p.scratch)
}

func (p *Protocol) scratchOperation(kind shadow.Kind, args ...string) *shadow.Operation {
	return &shadow.Operation{Kind: kind, Name: args[0] + " scratch", Keys: []string{nameOf("0", []byte(p.scratch))}, Request: resp.AppendCommand(nil, args...)}
}

var started = time.Now().UnixNano()
