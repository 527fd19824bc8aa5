package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// sealedBy returns an envelope that names x, and its value.
func sealedBy(t *testing.T, x *codec.Dict) (sealed, value string) {
	t.Helper()
	value = string(x.Content()[:100]) + "!"
	s := envelope.NewSealer(envelope.SealerOptions{Dicts: fixed{x}})
	sealed = string(s.Seal(nil, []byte(value), codec.Setting{Codec: codec.Zstd, Dict: x.Number()}, nil))
	if h, err := envelope.ParseHeader([]byte(sealed)); err != nil || h.Dict != x.Number() {
		t.Fatalf("%+v, %v", h, err)
	}
	return sealed, value
}

type fixed struct{ x *codec.Dict }

func (f fixed) Dictionary(uint32) (*codec.Dict, error) { return f.x, nil }

func wantState(t *testing.T, d *Dicts, x *codec.Dict, want State) {
	t.Helper()
	infos, err := d.List(t.Context())
	must(t, err)
	state := State("")
	for _, i := range infos {
		if i.Number == x.Number() {
			state = i.State
			if i.Hash != x.Hash() || i.Problem != "" {
				t.Errorf("%+v", i)
			}
		}
	}
	if state != want {
		t.Errorf("dictionary %08x is %q, want %q", x.Number(), state, want)
	}
}

func TestArchive(t *testing.T) {
	for kind, server := range recordServers(t) {
		t.Run(kind, func(t *testing.T) {
			gateway, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			operator, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			x := testDict(t, "archive")
			mustPublish(t, gateway, x)
			must(t, operator.Retire(t.Context(), x.Number()))
			must(t, operator.Retire(t.Context(), x.Number()))
			wantState(t, operator, x, Retired)
			mustRecheck(t, gateway)
			wantReady(t, gateway, x, false)
			if !gateway.Retired(x.Number()) {
				t.Error("the gateway does not know")
			}
			must(t, gateway.Publish(t.Context(), x))
			wantReady(t, gateway, x, false)
			must(t, operator.Unretire(t.Context(), x.Number()))
			mustRecheck(t, gateway)
			wantReady(t, gateway, x, true)

			if err := operator.Forget(t.Context(), x.Number()); !errors.Is(err, ErrLive) {
				t.Errorf("forget a live one: %v", err)
			}
			must(t, operator.Archive(t.Context(), x.Number()))
			must(t, operator.Archive(t.Context(), x.Number()))
			wantState(t, operator, x, Archived)
			mustHold(t, server.Addr, x)
			mustRecheck(t, gateway)
			wantReady(t, gateway, x, false)
			wantState(t, operator, x, Archived) // not restored

			must(t, operator.Restore(t.Context(), x))
			wantState(t, operator, x, Live)
			mustRecheck(t, gateway)
			wantReady(t, gateway, x, true)

			must(t, operator.Archive(t.Context(), x.Number()))
			must(t, operator.Forget(t.Context(), x.Number()))
			for range 2 {
				mustRecheck(t, gateway)
				wantReady(t, gateway, x, false)
			}
			wantState(t, operator, x, "")
			late, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			if _, err := late.Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
				t.Errorf("forgotten: %v", err)
			}
		})
	}
}

func TestCollect(t *testing.T) {
	for kind, server := range recordServers(t) {
		t.Run(kind, func(t *testing.T) {
			d, client := gatewayOn(t, server.Addr, &testenv.Log{})
			idle := testDict(t, "idle")
			names := []string{"string", "hash", "stream", "list", "other database"}
			dicts := []*codec.Dict{idle}
			mustPublish(t, d, idle)
			for _, name := range names {
				x := testDict(t, name)
				mustPublish(t, d, x)
				dicts = append(dicts, x)
				sealed, _ := sealedBy(t, x)
				plant(t, server.Addr, client, name, sealed)
			}
			client.Set(t.Context(), "plain", strings.Repeat("x", 1000), 0)
			got := collect(t, server.Addr, d, time.Millisecond, dicts...)
			for i, x := range dicts {
				if i == 0 {
					if !got[x.Number()].Archived {
						t.Errorf("unused dictionary: %+v", got[x.Number()])
					}
					wantState(t, d, x, Archived)
					continue
				}
				if got[x.Number()].Archived || got[x.Number()].Values != 1 {
					t.Errorf("named in a %s: %+v", names[i-1], got[x.Number()])
				}
				wantState(t, d, x, Live)
			}
		})
	}
}

// plant stores an envelope in the given kind of place.
func plant(t *testing.T, addr string, client *goredis.Client, where, sealed string) {
	t.Helper()
	ctx := t.Context()
	switch where {
	case "string":
		must(t, client.Set(ctx, where, sealed, 0).Err())
	case "hash":
		for i := range 600 { // no listpack
			must(t, client.HSet(ctx, where, fmt.Sprint(i), strings.Repeat("x", 100)).Err())
		}
		must(t, client.HSet(ctx, where, "f", sealed).Err())
	case "stream":
		must(t, client.XAdd(ctx, &goredis.XAddArgs{Stream: where, Values: []string{"f", sealed}}).Err())
	case "list":
		must(t, client.RPush(ctx, where, "a", sealed, "b").Err())
	default:
		must(t, connect(t, goredis.Options{Addr: addr, DB: 9}).Set(ctx, where, sealed, 0).Err())
	}
}

func collect(t *testing.T, addr string, d *Dicts, wait time.Duration, dicts ...*codec.Dict) map[uint32]Outcome {
	t.Helper()
	var numbers []uint32
	for _, x := range dicts {
		numbers = append(numbers, x.Number())
	}
	o := CollectOptions{Nodes: []CollectNode{{d, &goredis.Options{Addr: addr}}}, Wait: wait, Tell: t.Logf}
	outcomes, err := Collect(t.Context(), o, numbers)
	must(t, err)
	got := map[uint32]Outcome{}
	for _, out := range outcomes {
		got[out.Number] = out
	}
	if len(got) != len(dicts) {
		t.Fatalf("%+v", outcomes)
	}
	return got
}

// A gateway that is cut off may name a dictionary until its lease ends, and here it does.
func TestCollectWaitsForLeases(t *testing.T) {
	const lease = 400 * time.Millisecond
	server := testenv.Redis(t)
	operator, _ := gatewayOn(t, server.Addr, &testenv.Log{})
	cutOff := NewDicts(DictsOptions{Client: connect(t, goredis.Options{Addr: server.Addr}), Lease: lease, Log: new(testenv.Log).Logger()})
	x := testDict(t, "lease")
	sealed, _ := sealedBy(t, x)
	client := connect(t, goredis.Options{Addr: server.Addr})
	mustPublish(t, cutOff, x) // and it never checks again

	var late sync.WaitGroup
	late.Go(func() {
		for cutOff.Ready(x.Number()) {
			time.Sleep(time.Millisecond)
		}
		client.Set(t.Context(), "late", sealed, 0) // it was under way when the lease ended
	})
	got := collect(t, server.Addr, operator, lease+3*time.Second, x)
	late.Wait()
	if out := got[x.Number()]; out.Archived || out.Values != 1 {
		t.Errorf("archived though a value names it: %+v", out)
	}
	wantState(t, operator, x, Live)
}

// stumbling makes the next request for retired dictionaries fail with a timeout.
type stumbling struct{ next atomic.Bool }

func (s *stumbling) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (s *stumbling) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		marks := cmd.Name() == "function" && strings.Contains(fmt.Sprint(cmd.Args()...), everyPrefix+"*")
		marks = marks || cmd.Name() == "getrange" && strings.HasPrefix(fmt.Sprint(cmd.Args()[1]), markKeyPrefix)
		if marks && s.next.CompareAndSwap(true, false) {
			return os.ErrDeadlineExceeded
		}
		return next(ctx, cmd)
	}
}

func (s *stumbling) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// If a gateway can't ask which dictionaries are retired, it must not treat one as live just because it is
// stored.
func TestRetiredIsNotNamedAfterTrouble(t *testing.T) {
	for kind, server := range recordServers(t) {
		t.Run(kind, func(t *testing.T) {
			operator, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			d, client := gatewayOn(t, server.Addr, &testenv.Log{})
			trouble := &stumbling{}
			client.AddHook(trouble)
			x := testDict(t, "retired meanwhile")
			mustPublish(t, d, x)
			must(t, operator.Retire(t.Context(), x.Number()))
			trouble.next.Store(true)
			if err := d.Recheck(t.Context()); err == nil || trouble.next.Load() {
				t.Errorf("the check went well: %v", err)
			}
			wantReady(t, d, x, false)
			trouble.next.Store(true)
			if err := d.Publish(t.Context(), x); err == nil {
				t.Error("publishing went well")
			}
			wantReady(t, d, x, false)
			must(t, operator.Unretire(t.Context(), x.Number()))
			mustRecheck(t, d)
			wantReady(t, d, x, true)
		})
	}
}

// If a mark is lost while Collect waits (by a failover or FUNCTION FLUSH), gateways may have named the
// dictionary meanwhile.
func TestCollectSeesThatTheMarkWasLost(t *testing.T) {
	for kind, server := range recordServers(t) {
		t.Run(kind, func(t *testing.T) {
			operator, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			gateway, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			x, y := testDict(t, "mark lost"), testDict(t, "mark made anew")
			mustPublish(t, gateway, x, y)
			for _, d := range []*codec.Dict{x, y} {
				must(t, operator.retireAt(t.Context(), d.Number(), time.Now().Add(-time.Hour)))
			}
			o := CollectOptions{
				Nodes: []CollectNode{{operator, &goredis.Options{Addr: server.Addr}}}, Wait: time.Millisecond,
				Tell: func(format string, _ ...any) {
					if strings.Contains(format, "waiting") {
						must(t, operator.Unretire(t.Context(), x.Number()))
						must(t, operator.Unretire(t.Context(), y.Number()))
						mustRecheck(t, gateway)
						wantReady(t, gateway, x, true)
						must(t, operator.Retire(t.Context(), y.Number()))
					}
				},
			}
			outcomes, err := Collect(t.Context(), o, []uint32{x.Number(), y.Number()})
			if err != nil || len(outcomes) != 2 {
				t.Fatalf("%+v, %v", outcomes, err)
			}
			for _, out := range outcomes {
				if out.Archived || out.Reason == "" {
					t.Errorf("%+v", out)
				}
			}
			wantState(t, operator, x, Live)
			wantState(t, operator, y, Retired)
			wantReady(t, gateway, x, true)
		})
	}
}

// A value that the scans missed is opened from the archive: here one restored from a backup.
func TestWhatAScanMissedOpens(t *testing.T) {
	for kind, server := range recordServers(t) {
		t.Run(kind, func(t *testing.T) {
			d, client := gatewayOn(t, server.Addr, &testenv.Log{})
			x := testDict(t, "missed")
			mustPublish(t, d, x)
			sealed, value := sealedBy(t, x)
			must(t, client.Set(t.Context(), "k", sealed, 0).Err())
			backup := client.Dump(t.Context(), "k").Val()
			must(t, client.Del(t.Context(), "k").Err())
			if got := collect(t, server.Addr, d, time.Millisecond, x); !got[x.Number()].Archived {
				t.Fatalf("%+v", got)
			}
			must(t, client.Restore(t.Context(), "k", 0, backup).Err())
			fresh, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			opened, err := envelope.NewSealer(envelope.SealerOptions{Dicts: fresh}).Open(nil, []byte(client.Get(t.Context(), "k").Val()))
			if err != nil || string(opened) != value {
				t.Errorf("%v: %q", err, opened)
			}
			mustRecheck(t, fresh)
			wantReady(t, fresh, x, false)
			if counts, err := Count(context.Background(), &goredis.Options{Addr: server.Addr}); err != nil || counts.ByDict[x.Number()] != 1 {
				t.Errorf("%v: %+v", err, counts)
			}
		})
	}
}

func TestLeaseEnds(t *testing.T) {
	server := testenv.Redis(t)
	d := NewDicts(DictsOptions{Client: connect(t, goredis.Options{Addr: server.Addr}), Lease: 50 * time.Millisecond, Log: new(testenv.Log).Logger()})
	x := testDict(t, "ends")
	if err := d.Publish(t.Context(), x); err != nil { // its lease may have ended by now
		t.Fatal(err)
	}
	testenv.Eventually(t, "the end of the lease", func() bool { return !d.Ready(x.Number()) })
	testenv.Eventually(t, "ready after a check", func() bool { // retried, since this lease too may have ended by now
		mustRecheck(t, d)
		return d.Ready(x.Number())
	})
}

// A retired dictionary that a server loses is restored, since values may name it: here between the first scan of gc and
// its mark. It stays retired.
func TestRetiredIsRestored(t *testing.T) {
	for name, server := range map[string]*testenv.RedisServer{"functions": testenv.Redis(t), "keys": withoutFunctions(t)} {
		t.Run(name, func(t *testing.T) {
			d, client := gatewayOn(t, server.Addr, &testenv.Log{})
			x := testDict(t, "flushed")
			mustPublish(t, d, x)
			if name == "functions" {
				must(t, client.FunctionFlush(t.Context()).Err())
			} else {
				must(t, client.FlushAll(t.Context()).Err())
			}
			must(t, d.Retire(t.Context(), x.Number()))
			mustRecheck(t, d)
			wantReady(t, d, x, false)
			mustHold(t, server.Addr, x)
			must(t, d.Unretire(t.Context(), x.Number()))
			mustRecheck(t, d)
			wantReady(t, d, x, true)
		})
	}
}

// A dictionary that was erased is not stored again, on a server that never had it either.
func TestErasedStaysErased(t *testing.T) {
	for name, server := range map[string]*testenv.RedisServer{"functions": testenv.Redis(t), "keys": withoutFunctions(t)} {
		t.Run(name, func(t *testing.T) {
			d, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			x := testDict(t, "erased")
			mustPublish(t, d, x)
			operator, _ := gatewayOn(t, server.Addr, &testenv.Log{})
			must(t, operator.Archive(t.Context(), x.Number()))
			must(t, operator.Retire(t.Context(), x.Number())) // another gc has begun with it
			must(t, operator.Forget(t.Context(), x.Number()))
			mustRecheck(t, d)
			mustRecheck(t, d)
			if _, err := operator.find(t.Context(), x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
				t.Errorf("it is back: %v", err)
			}
		})
	}
}
