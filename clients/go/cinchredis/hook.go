package cinchredis

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// Options configures Attach. The zero value suits most clients.
type Options struct {
	// MaxValue limits the values that are compressed or decompressed, in bytes. Longer ones are written
	// uncompressed, and compressed ones are read as ErrTooLarge. 0: envelope.DefaultMaxRaw.
	MaxValue int
	// Refresh is the interval between reads of the policy. 0: 30 seconds.
	Refresh time.Duration
	// Engine compresses and decompresses. It may be shared. nil: an engine in pure Go.
	Engine *codec.Engine
	Log    *slog.Logger // nil: slog.Default()
}

// Attach makes a client compress and decompress values from now on, by the policy that gateways have published
// in its store. It reads the policy before it returns, within five seconds or until ctx is done, and again
// while the client is used. A server that does not answer is no error: that is logged, the server is asked
// again later, and until then nothing is compressed.
//
// The client must be a *redis.Client, which may be from NewFailoverClient, or a *redis.ClusterClient; for
// others the error wraps [ErrUnsupported]. For a Ring attach to the clients of its servers, which
// RingOptions.NewClient makes. Attach once, before other goroutines use the client.
func Attach(ctx context.Context, rdb redis.UniversalClient, o Options) error {
	h, err := newHook(rdb, o)
	if err != nil {
		return err
	}
	h.keeper.begin(ctx)
	rdb.AddHook(h)
	return nil
}

// A hook seals the values of commands and opens those of replies.
type hook struct {
	keeper *keeper
	sealer *envelope.Sealer
}

func newHook(rdb redis.UniversalClient, o Options) (*hook, error) {
	s, space, err := newServers(rdb)
	if err != nil {
		return nil, err
	}
	k := newKeeper(s, space, o)
	return &hook{k, envelope.NewSealer(envelope.SealerOptions{Engine: o.Engine, Dicts: k, MaxRaw: o.MaxValue, MaxOpen: o.MaxValue})}, nil
}

// DialHook implements redis.Hook. It does not change connections.
func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s, err := h.seal(cmd)
		if err != nil {
			return err
		}
		if s == nil {
			err = next(ctx, cmd)
		} else {
			err = next(ctx, s.cmd)
			s.answer(cmd)
		}
		if err != nil {
			return err
		}
		return h.open(cmd)
	}
}

// ProcessPipelineHook implements redis.Hook. If one command is refused, none is sent.
func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent, all, err := h.sealAll(cmds)
		if err != nil {
			return fail(cmds, err)
		}
		err = next(ctx, sent)
		for i, s := range all {
			if s != nil {
				cmds[i].SetErr(s.cmd.Err())
				s.answer(cmds[i])
			}
		}
		return h.openAll(cmds, err)
	}
}

// sealAll returns the commands to send. all[i] is the sealed copy that is sent instead of cmds[i], nil if cmds[i]
// itself is sent; all is nil if no command is replaced.
func (h *hook) sealAll(cmds []redis.Cmder) (sent []redis.Cmder, all []*sealed, err error) {
	sent = cmds
	for i, cmd := range cmds {
		s, err := h.seal(cmd)
		if err != nil {
			return nil, nil, err
		}
		if s == nil {
			continue
		}
		if all == nil {
			sent, all = slices.Clone(cmds), make([]*sealed, len(cmds))
		}
		sent[i], all[i] = s.cmd, s
	}
	return sent, all, nil
}

// openAll opens the replies of a pipeline. It returns err, or the first error of opening if err is nil.
func (h *hook) openAll(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			continue
		}
		if failed := h.open(cmd); failed != nil {
			cmd.SetErr(failed)
			if err == nil {
				err = failed
			}
		}
	}
	return err
}

func fail(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}
