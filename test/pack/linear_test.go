package pack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

const (
	recordedClients = 6
	recordedKeys    = 24
	checkTimeout    = time.Minute
)

// recorder runs clients that share keys, and records each request, its answer and both times.
type recorder struct {
	t               *testing.T
	seed            uint64 // determines the requests of each client
	through, direct string // addresses
	began           time.Time

	mu      sync.Mutex
	history []porcupine.Operation
}

func newRecorder(t *testing.T, through, direct string) *recorder {
	return &recorder{t: t, seed: testenv.Seed(t), through: through, direct: direct, began: time.Now()}
}

// run has every client send that many requests and waits for them.
func (r *recorder) run(requests int, pause time.Duration) {
	var clients sync.WaitGroup
	for i := range recordedClients {
		gateway, direct := connect(r.t, r.through), connect(r.t, r.direct)
		clients.Go(func() {
			random := rand.New(rand.NewPCG(r.seed, uint64(i)))
			for n := range requests {
				q, around := nextRequest(random, i*requests+n)
				c, open := gateway, (*envelope.Sealer)(nil)
				if around {
					c, open = direct, newSealer(nil)
				}
				if err := r.do(i, q, c, open); err != nil {
					r.t.Error(err)
					return
				}
				time.Sleep(pause)
			}
		})
	}
	clients.Wait()
}

// kinds are commands, repeated by frequency. Plain kinds don't depend on the stored value and may be sent
// directly to the server.
var (
	plainKinds = []string{
		"set", "set", "set keepttl", "set keepttl", "set nx", "get", "get", "get", "del", "pexpireat", "pexpireat",
		"persist", "pexpiretime", "pexpiretime", "hset", "hset", "hset", "hget", "hget", "hdel",
	}
	throughKinds = []string{"getset", "getdel", "append", "append", "append", "setrange", "strlen", "strlen", "get", "get", "hget"}
)

func nextRequest(random *rand.Rand, number int) (q request, around bool) {
	i := random.IntN(len(plainKinds) + len(throughKinds))
	q = request{key: fmt.Sprint("shared:", random.IntN(recordedKeys)), field: random.IntN(3)}
	if i < len(plainKinds) {
		q.name, around = plainKinds[i], random.IntN(2) == 0
	} else {
		q.name = throughKinds[i-len(plainKinds)]
	}
	q.value = document(number, 60+random.IntN(1500))
	switch {
	case q.name == "append":
		q.value = fmt.Sprintf(" and %d", number)
	case random.IntN(8) == 0:
		q.value = strconv.Itoa(1_000_000 + number) // never compressed
	}
	q.at = 4102444800000 + int64(number)
	return q, around
}

func (r *recorder) do(client int, q request, c *goredis.Client, open *envelope.Sealer) error {
	call := time.Since(r.began)
	a, err := q.send(context.Background(), c, open)
	returned := time.Since(r.began)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: client, Input: q, Call: int64(call), Output: a, Return: int64(returned),
	})
	return nil
}

// readAll records reads of everything that is stored, so that the final state is part of the history.
func (r *recorder) readAll(addr string, open *envelope.Sealer) {
	c := connect(r.t, addr)
	for k := range recordedKeys {
		key := fmt.Sprint("shared:", k)
		for _, q := range []request{
			{name: "get", key: key},
			{name: "hget", key: key, field: 0},
			{name: "hget", key: key, field: 1},
			{name: "hget", key: key, field: 2},
			{name: "pexpiretime", key: key},
		} {
			if err := r.do(0, q, c, open); err != nil {
				r.t.Error(err)
			}
		}
	}
}

// check reports whether one server without Cinch could have given these answers.
func (r *recorder) check() porcupine.CheckResult {
	result, info := porcupine.CheckOperationsVerbose(registers, r.history, checkTimeout)
	if result == porcupine.Illegal && os.Getenv("CINCH_PACK_HISTORY") != "" {
		_ = porcupine.VisualizePath(registers, info, os.Getenv("CINCH_PACK_HISTORY"))
	}
	return result
}

func (r *recorder) mustBeLinearizable() {
	r.t.Helper()
	if got := r.check(); got != porcupine.Ok {
		r.t.Errorf("the history of %d requests: %s (CINCH_PACK_HISTORY=FILE shows it)", len(r.history), got)
	}
}

// TestLinearizable runs two packers and an unpacker while clients share keys.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: "- {name: all, setting: zstd-1}"})
	must(t, connect(t, server.Addr).Set(t.Context(), "first", "so that the database is there", 0).Err())
	r := newRecorder(t, gateway.Addr, server.Addr)
	done := make(chan struct{})
	var walkers sync.WaitGroup
	var replaced, raced atomic.Int64
	for i := range 3 {
		walkers.Go(func() {
			sum := walkUntil(t, server.Addr, i == 2, done)
			replaced.Add(sum.Replaced)
			raced.Add(sum.Conflicts)
		})
	}
	r.run(codectest.Amount(400, 400, 1500), 0)
	close(done)
	walkers.Wait()
	r.readAll(gateway.Addr, nil)
	expect(t, 0, []string{"unpack", server.URL()})
	r.readAll(server.Addr, nil) // no value may be compressed any more
	t.Logf("%d requests, %d values replaced, %d times a writer was faster", len(r.history), replaced.Load(), raced.Load())
	if replaced.Load() < 200 {
		t.Errorf("the walkers replaced only %d values", replaced.Load())
	}
	r.mustBeLinearizable()
}

// TestLinearizableUnderKills does the same with processes that are killed at random and then resume.
func TestLinearizableUnderKills(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: "- {name: all, setting: zstd-1}"})
	c := connect(t, server.Addr)
	fill(t, c, 500, 150, 300) // more keys beside the shared ones, so that a pass takes longer
	before := contents(t, c, newSealer(nil))
	r := newRecorder(t, gateway.Addr, server.Addr)
	done := make(chan struct{})
	var packers sync.WaitGroup
	var killed atomic.Int64
	dir := t.TempDir()
	for i, args := range [][]string{{"pack", plainRule, "--worker", "1/2"}, {"pack", plainRule, "--worker", "2/2"}, {"unpack"}} {
		args = append(args, server.URL(), "--no-backoff", "--keys-per-second", "5000", "--state", filepath.Join(dir, strconv.Itoa(i)))
		program, random := testenv.Cinch(t), rand.New(rand.NewPCG(r.seed, uint64(100+i)))
		packers.Go(func() { killed.Add(killAgain(t, program, args, random, done)) })
	}
	r.run(codectest.Amount(300, 300, 1000), 3*time.Millisecond)
	close(done)
	packers.Wait()
	t.Logf("%d packers were killed", killed.Load())
	if killed.Load() < 3 {
		t.Error("hardly any packer was killed")
	}
	expect(t, 0, []string{"pack", server.URL(), plainRule})
	r.readAll(gateway.Addr, nil)
	expect(t, 0, []string{"unpack", server.URL()})
	r.readAll(server.Addr, nil)
	r.mustBeLinearizable()
	after := contents(t, c, newSealer(nil))
	for k := range recordedKeys {
		for _, suffix := range []string{"", ".0", ".1", ".2", " expires"} {
			delete(after, fmt.Sprint("shared:", k, suffix))
		}
	}
	sameContents(t, "keys that nobody wrote to", after, before)
}

// killAgain starts a program repeatedly and kills it after a random time if it still runs. The last one is
// not killed.
func killAgain(t *testing.T, program string, args []string, random *rand.Rand, done <-chan struct{}) (killed int64) {
	for {
		cmd := exec.Command(program, args...)
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return killed
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("cinch %v: %v", args, err)
				return killed
			}
		case <-time.After(time.Duration(20+random.IntN(300)) * time.Millisecond):
			_ = cmd.Process.Kill()
			<-ended
			killed++
		}
		select {
		case <-done:
			return killed
		default:
		}
	}
}

// badPackers replace values in ways that a packer must not. The clients and the check must detect each of
// them; otherwise the test proves nothing about the correct packer.
var badPackers = map[string]func(ctx context.Context, c *goredis.Client, key, stored string, sealed []byte) error{
	"replaces without comparing": func(ctx context.Context, c *goredis.Client, key, _ string, sealed []byte) error {
		return c.Set(ctx, key, sealed, goredis.KeepTTL).Err()
	},
	"compares first and sets then": func(ctx context.Context, c *goredis.Client, key, stored string, sealed []byte) error {
		if now, err := c.Get(ctx, key).Result(); err != nil || now != stored {
			return nil
		}
		return c.Set(ctx, key, sealed, goredis.KeepTTL).Err()
	},
	"loses expiries": func(ctx context.Context, c *goredis.Client, key, stored string, sealed []byte) error {
		return c.Eval(ctx, "if redis.call('get',KEYS[1])==ARGV[1] then redis.call('set',KEYS[1],ARGV[2]) end return 1", []string{key}, stored, sealed).Err()
	},
	"rounds expiries": func(ctx context.Context, c *goredis.Client, key, stored string, sealed []byte) error {
		return c.Eval(ctx, `if redis.call('get',KEYS[1])==ARGV[1] then
			local ttl=redis.call('ttl',KEYS[1])
			redis.call('set',KEYS[1],ARGV[2])
			if ttl>0 then redis.call('expire',KEYS[1],ttl) end
		end return 1`, []string{key}, stored, sealed).Err()
	},
}

func TestBadPackersAreFound(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Rules: "- {name: all, setting: zstd-1}"})
	for what, replace := range badPackers {
		t.Run(what, func(t *testing.T) {
			for try := range 30 {
				r := newRecorder(t, gateway.Addr, server.Addr)
				must(t, connect(t, server.Addr).FlushAll(t.Context()).Err())
				r.runBeside(200, replace)
				r.readAll(gateway.Addr, nil)
				if result := r.check(); result == porcupine.Illegal {
					t.Logf("found at try %d, in %d requests", try+1, len(r.history))
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}

// runBeside runs the clients beside a packer that replaces strings with the function replace.
func (r *recorder) runBeside(requests int, replace func(ctx context.Context, c *goredis.Client, key, stored string, sealed []byte) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var packer sync.WaitGroup
	c, s := connect(r.t, r.direct), newSealer(nil)
	packer.Go(func() {
		for ctx.Err() == nil {
			for k := range recordedKeys {
				key := fmt.Sprint("shared:", k)
				stored, err := c.Get(ctx, key).Result()
				if err != nil || envelope.IsSealed([]byte(stored)) {
					continue
				}
				sealed := s.Seal(nil, []byte(stored), codec.Setting{Codec: codec.Zstd, Level: 1}, nil)
				if envelope.IsSealed(sealed) {
					_ = replace(ctx, c, key, stored, sealed)
				}
			}
		}
	})
	r.run(requests, 0)
	cancel()
	packer.Wait()
}

// TestCheckerOfHistories checks that the answers of a correct server pass, and that each way to lose or
// invent a value fails.
func TestCheckerOfHistories(t *testing.T) {
	t.Parallel()
	good := func() []porcupine.Operation {
		var h []porcupine.Operation
		states := map[string]register{}
		random := rand.New(rand.NewPCG(1, 2))
		for n := range 2000 {
			q, _ := nextRequest(random, n)
			next, a := states[q.key].apply(q)
			states[q.key] = next
			h = append(h, porcupine.Operation{Input: q, Output: a, Call: int64(10 * n), Return: int64(10*n + 15)})
		}
		return h
	}
	if !porcupine.CheckOperations(registers, good()) {
		t.Fatal("a good history is refused")
	}
	last := func(h []porcupine.Operation, fits func(request, answer) bool) *porcupine.Operation {
		for i := len(h) - 1; i >= 0; i-- {
			if fits(h[i].Input.(request), h[i].Output.(answer)) {
				return &h[i]
			}
		}
		t.Fatal("no such request")
		return nil
	}
	for what, damage := range map[string]func(h []porcupine.Operation) []porcupine.Operation{
		"a read is older": func(h []porcupine.Operation) []porcupine.Operation {
			read := last(h, func(q request, a answer) bool { return q.name == "get" && a.text != "" })
			read.Output = answer{text: last(h[:100], func(q request, _ answer) bool { return q.name == "set" }).Input.(request).value}
			return h
		},
		"a value is gone": func(h []porcupine.Operation) []porcupine.Operation {
			last(h, func(q request, a answer) bool { return q.name == "hget" && a.text != "" }).Output = answer{none: true}
			return h
		},
		"an expiry is a millisecond late": func(h []porcupine.Operation) []porcupine.Operation {
			read := last(h, func(q request, a answer) bool { return q.name == "pexpiretime" && a.number > 0 })
			read.Output = answer{number: read.Output.(answer).number + 1}
			return h
		},
		"an expiry is gone": func(h []porcupine.Operation) []porcupine.Operation {
			last(h, func(q request, a answer) bool { return q.name == "pexpiretime" && a.number > 0 }).Output = answer{number: -1}
			return h
		},
		"an update is lost": func(h []porcupine.Operation) []porcupine.Operation {
			// The write whose value was read is removed.
			read := last(h, func(q request, a answer) bool { return q.name == "get" && a.text != "" })
			key, kept := read.Input.(request).key, h[:0]
			for _, o := range h {
				if q := o.Input.(request); q.key != key || o.Call >= read.Call {
					kept = append(kept, o)
				}
			}
			return kept
		},
		"one byte is another": func(h []porcupine.Operation) []porcupine.Operation {
			read := last(h, func(q request, a answer) bool { return q.name == "get" && len(a.text) > 10 })
			text := []byte(read.Output.(answer).text)
			text[7] ^= 1
			read.Output = answer{text: string(text)}
			return h
		},
	} {
		if porcupine.CheckOperations(registers, damage(good())) {
			t.Errorf("%s, and nobody noticed", what)
		}
	}
}
