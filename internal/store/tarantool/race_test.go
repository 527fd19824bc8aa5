package tarantool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
	"github.com/cinch-layer/cinch/test/testenv"
)

// run makes one pass of a packer or an unpacker on a new connection.
func run(ctx context.Context, c *Conn, unpack bool, change func(*pack.Options)) (pack.Report, error) {
	s, err := Open(ctx, c, OpenOptions{Name: "server"})
	if err != nil {
		return pack.Report{}, err
	}
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Types: policy.Tuple, MinGain: policy.AnyGain, Setting: codec.Setting{Codec: codec.Zstd, Level: 1}}}})
	if err != nil {
		return pack.Report{}, err
	}
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	o := pack.Options{Step: 16, NoBackoff: true, Unavailable: Unavailable, Task: &pack.Seal{
		Policy: rules, Sealer: sealer, Ready: func(uint32) bool { return true },
		Rule: func(space string, v *store.Value, size int) *policy.Rule {
			sp := s.Schema().SpaceByName(space)
			n, _ := sp.FieldNumber(string(v.Field))
			return policy.RuleFor(rules.CoveringTuple(sp.RuleAddress(sp.FieldAt(n))), size)
		},
	}}
	if unpack {
		o.Task = &pack.Unpack{Sealer: sealer}
	}
	for _, space := range s.Spaces() {
		o.Targets = append(o.Targets, store.Target{Node: s, Space: space})
	}
	if change != nil {
		change(&o)
	}
	return pack.Run(ctx, o)
}

// step is a client's operation on a tuple's field: it writes write, or reads if write is "".
type step struct {
	key   int
	write string
}

var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, o := range history {
			byKey[o.Input.(step).key] = append(byKey[o.Input.(step).key], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return document(0) },
	Step: func(state, input, output any) (bool, any) {
		if s := input.(step); s.write != "" {
			return true, s.write
		}
		return output == state, state
	},
}

func document(n int) string {
	return fmt.Sprintf(`{"number": %d, "text": "%s"}`, n, strings.Repeat("some text that repeats, ", 8+n%9))
}

const raceKeys = 20

// TestRace lets clients write directly to the server while packers and an unpacker run. The reads of each
// client must fit one order of all writes, so none was lost. An update changes another field of each tuple
// too, which the packer's compare must not lose.
func TestRace(t *testing.T) {
	for _, engine := range []string{"memtx", "vinyl"} {
		t.Run(engine, func(t *testing.T) {
			server := testenv.Tarantool(t, fmt.Sprintf(`
				local s = box.schema.space.create('race', {engine = '%s', if_not_exists = true,
					format = {{'id', 'unsigned'}, {'body', 'string'}, {'more', 'scalar'}, {'count', 'unsigned'}}})
				s:create_index('pk', {if_not_exists = true})`, engine))
			c := mustConnect(t, server.Addr, "", "")
			install(t, c, InstallOptions{})
			for i := range raceKeys {
				if err := c.eval(t.Context(), `local i, d = ... box.space.race:replace{i, d, d, 0}`, []any{i, document(0)}, nil); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			packers, replaced := goRound(ctx, t, server.Addr)
			history, updates := clients(t, server.Addr)
			stop()
			packers.Wait()
			if ok := porcupine.CheckOperations(register, history); !ok {
				t.Errorf("a write was lost (%d operations)", len(history))
			}
			checkCounts(t, c, updates)
			replaced.mu.Lock()
			defer replaced.mu.Unlock()
			if replaced.sealed == 0 || replaced.opened == 0 {
				t.Errorf("%d sealed, %d opened: nothing raced", replaced.sealed, replaced.opened)
			}
			t.Logf("%d operations, %d sealed, %d opened, %d races", len(history), replaced.sealed, replaced.opened, replaced.raced)
		})
	}
}

type replacements struct {
	mu                    sync.Mutex
	sealed, opened, raced int64
}

// goRound runs two packers and an unpacker until ctx ends.
func goRound(ctx context.Context, t *testing.T, addr string) (*sync.WaitGroup, *replacements) {
	var all sync.WaitGroup
	var counted replacements
	for i := range 3 {
		c := mustConnect(t, addr, "", "")
		all.Go(func() {
			for ctx.Err() == nil {
				report, err := run(ctx, c, i == 2, nil)
				if err != nil && ctx.Err() == nil {
					t.Errorf("packer: %v", err)
					return
				}
				counted.mu.Lock()
				counted.raced += report.Conflicts
				if i == 2 {
					counted.opened += report.Replaced
				} else {
					counted.sealed += report.Replaced
				}
				counted.mu.Unlock()
			}
		})
	}
	return &all, &counted
}

// clients write, read and update. It returns the history, and how often each count was raised.
func clients(t *testing.T, addr string) (history []porcupine.Operation, updates []int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	updates = make([]int, raceKeys)
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	for client := range 4 {
		c := mustConnect(t, addr, "", "")
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1))
			for n := range 250 {
				s := step{key: random.IntN(raceKeys)}
				if random.IntN(2) == 0 {
					s.write = document(client*1000 + n + 1)
				}
				call := time.Since(began)
				read, err := s.do(t.Context(), c, sealer)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if s.write != "" {
					updates[s.key]++
				}
				history = append(history, porcupine.Operation{ClientId: client, Input: s, Call: int64(call), Output: read, Return: int64(time.Since(began))})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return history, updates
}

func (s step) do(ctx context.Context, c *Conn, sealer *envelope.Sealer) (string, error) {
	if s.write != "" {
		for {
			err := c.eval(ctx, `local i, d = ... return box.space.race:update(i, {{'=', 2, d}, {'=', 3, d}, {'+', 4, 1}})`, []any{s.key, s.write}, nil)
			if err == nil || !isCode(err, 97) { // the client repeats conflicts in vinyl
				return "", err
			}
		}
	}
	var answer []string
	if err := c.eval(ctx, `local t = box.space.race:get(...) return t[2], t[3]`, []any{s.key}, &answer); err != nil {
		return "", err
	}
	body, err := sealer.Open(nil, []byte(answer[0]))
	if err != nil {
		return "", err
	}
	more, err := sealer.Open(nil, []byte(answer[1]))
	if err == nil && string(more) != string(body) {
		err = errors.New("the fields of a tuple are of two writes")
	}
	return string(body), err
}

func checkCounts(t *testing.T, c *Conn, updates []int) {
	t.Helper()
	for key, want := range updates {
		var got []int
		if err := c.eval(t.Context(), `return box.space.race:get(...)[4]`, []any{key}, &got); err != nil || got[0] != want {
			t.Errorf("tuple %d was updated %d times, and counts %v, %v", key, want, got, err)
		}
	}
}

// TestReplica: a replica holds the packed tuples byte for byte, and can be verified.
func TestReplica(t *testing.T) {
	master := testenv.Tarantool(t, `box.schema.user.grant('guest', 'replication', nil, nil, {if_not_exists = true})
		local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
		s:create_index('pk', {if_not_exists = true})`)
	c := mustConnect(t, master.Addr, "", "")
	install(t, c, InstallOptions{})
	for i := range 100 {
		if err := c.eval(t.Context(), `box.space.docs:replace{...}`, []any{i, document(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	addr := startReplica(t, master.Addr)
	if report, err := run(t.Context(), c, false, nil); err != nil || report.Replaced != 100 {
		t.Fatalf("%d replaced, %v", report.Replaced, err)
	}
	digest := `local t = {} for _, x in box.space.docs:pairs() do table.insert(t, require('digest').sha256_hex(require('msgpack').encode(x))) end return table.concat(t)`
	r := mustConnect(t, addr, "", "")
	want := luaString(t, c, digest)
	testenv.Eventually(t, "the replica holds the same bytes", func() bool { return luaString(t, r, digest) == want })
	s, err := Open(t.Context(), r, OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range walk(t, spaceOf(t, s, "docs"), 1000) {
		if !envelope.IsSealed(v.Stored) {
			t.Fatalf("%s is plain", v.Key)
		}
	}
}

// startReplica starts a read-only replica of a master; testenv starts only masters.
func startReplica(t *testing.T, master string) string {
	t.Helper()
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	script := fmt.Sprintf(`box.cfg{work_dir = %q, listen = %q, replication = {%q}, read_only = true, log_level = 4}`, dir, addr, master)
	file := filepath.Join(dir, "replica.lua")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Program(t, "tarantool"), file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testenv.Eventually(t, "the replica has joined", func() bool {
		c, err := connect(t, addr, "", "")
		if err != nil {
			return false
		}
		var there []bool
		return c.eval(t.Context(), `return box.space.docs ~= nil`, nil, &there) == nil && there[0]
	})
	return addr
}

// TestKilledPacker: an interrupted run continues from its position, in the same process of the server or the
// next.
func TestKilledPacker(t *testing.T) {
	server := testenv.Tarantool(t, `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
		s:create_index('pk', {if_not_exists = true})
		if s:len() == 0 then for i = 1, 2000 do s:replace{i, ('text that repeats '):rep(20)} end end`)
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	file := t.TempDir() + "/state"
	open := func() *pack.State {
		s, err := pack.OpenState(file, "run", "rules")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		var begun []bool
		for t.Context().Err() == nil && (len(begun) == 0 || !begun[0]) {
			time.Sleep(10 * time.Millisecond)
			_ = c.eval(t.Context(), `for _, d in box.space.docs:pairs() do if #d.body < 200 then return true end end return false`, nil, &begun)
		}
	}()
	first, err := run(t.Context(), c, false, func(o *pack.Options) { o.State, o.Stop, o.KeysPerSecond = open(), stop, 1000 })
	if !errors.Is(err, pack.ErrInterrupted) || first.Replaced == 0 || first.Replaced == 2000 {
		t.Fatalf("%d replaced, %v", first.Replaced, err)
	}
	server.Kill()
	if err := server.Restart(t); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the server is back", func() bool { return c.Ping(t.Context()) == nil })
	second, err := run(t.Context(), c, false, func(o *pack.Options) { o.State = open() })
	if err != nil || second.Keys >= 2000 || first.Replaced+second.Replaced != 2000 {
		t.Errorf("%d replaced, then %d of %d looked at, %v", first.Replaced, second.Replaced, second.Keys, err)
	}
	back, err := run(t.Context(), c, true, nil)
	if err != nil || back.Replaced != 2000 || luaString(t, c, `return box.space.docs:get(7).body`) != strings.Repeat("text that repeats ", 20) {
		t.Errorf("%d put back, %v", back.Replaced, err)
	}
}
