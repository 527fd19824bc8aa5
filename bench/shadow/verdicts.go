package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/menus"
)

// load is recorded once for the verdict "direct against through Cinch", and replayed at its own pace to a
// control and a test target: first to both directly, then with cinch serve in front of the test target.
type load struct {
	name   string
	keys   string // prefix of the keys
	values [][]byte
	reads  float64 // share
	pause  time.Duration
	batch  time.Duration
}

const verdictClients = 4

func loads() []load {
	m := load{name: "menus of 9.5 to 709 KB", keys: "menu:", reads: 0.7, pause: 20 * time.Millisecond, batch: 2 * time.Second}
	for n := range 100 {
		m.values = append(m.values, menus.Menu(n))
	}
	r := load{name: "records of 200 bytes", keys: "record:", reads: 0.95, pause: 2 * time.Millisecond, batch: time.Second}
	for n := range 500 {
		r.values = append(r.values, record(n))
	}
	return []load{m, r}
}

// record returns a JSON document of 200 bytes.
func record(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 200))
	text := fmt.Sprintf(`{"id":%d,"user":"u%08x","status":%q,"plan":%q,"created_at":"2024-%02d-%02dT%02d:%02d:00Z","score":%d,"flags":["%s"],"session":"`,
		100000+n, r.Uint32(), pick(r, "active", "trial", "closed", "paused"), pick(r, "free", "team", "business"), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(1000), pick(r, "beta", "legacy", "internal"))
	for len(text) < valueBytes-2 {
		text += strconv.FormatUint(uint64(r.IntN(16)), 16)
	}
	return []byte(text[:valueBytes-2] + `"}`)
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// trial is a replay of a load under rules.
type trial struct {
	load   load
	rules  string // as named in the table
	report *shadow.Report
	memory [2]int64 // of control and test, for the keys
}

// judge records each load and replays it under the rules that a user would choose.
func (b *bench) judge(length time.Duration) ([]*trial, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	key := filepath.Join(b.work, "key.txt")
	if err := os.WriteFile(key, []byte(identity.String()), 0o600); err != nil {
		return nil, err
	}
	var trials []*trial
	for i, l := range loads() {
		tape := filepath.Join(b.work, fmt.Sprintf("load-%d.cinchrec", i))
		if err := b.record(l, tape, identity.Recipient().String(), length); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		for _, dictionary := range []bool{false, true} {
			if dictionary && l.keys != "record:" {
				continue // the default has no dictionary, and suits large values
			}
			t, err := b.replay(l, tape, key, dictionary)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
			fmt.Printf("%s, %s: %s\n", l.name, t.rules, t.report.Outcome)
			trials = append(trials, t)
		}
	}
	return trials, nil
}

// fill stores the values that exist before the recording.
func (l *load) fill(p *rig.Process) error {
	c := p.Client()
	defer c.Close()
	for n, v := range l.values {
		if err := c.Set(context.Background(), l.keys+strconv.Itoa(n), v, 0).Err(); err != nil {
			return err
		}
	}
	return nil
}

// record runs clients through cinch record for the given time.
func (b *bench) record(l load, tape, recipient string, length time.Duration) error {
	production, err := rig.Redis(b.work)
	if err != nil {
		return err
	}
	defer production.Stop()
	if err := l.fill(production); err != nil {
		return err
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	recorder, err := rig.StartListener("record", addr, b.work, b.cinch, "record", "--redis", addr+"=redis://"+production.Addr,
		"--to", tape, "--recipient", recipient, "--limit", "4GiB", "--exit")
	if err != nil {
		return err
	}
	var failed error
	var mu sync.Mutex
	var working sync.WaitGroup
	for n := range verdictClients {
		working.Go(func() {
			if err := l.work(addr, uint64(n), length); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	recorder.Stop()
	fmt.Printf("%s: recorded\n", l.name)
	return failed
}

func (l *load) work(addr string, n uint64, length time.Duration) error {
	ctx := context.Background()
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	defer c.Close()
	r := rand.New(rand.NewPCG(n, 1))
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(l.pause) {
		i := r.IntN(len(l.values))
		key := l.keys + strconv.Itoa(i)
		var err error
		if r.Float64() < l.reads {
			err = c.Get(ctx, key).Err()
		} else {
			err = c.Set(ctx, key, l.values[i], 0).Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replay replays a recording to two servers with production's initial data.
func (b *bench) replay(l load, tape, key string, dictionary bool) (*trial, error) {
	t := &trial{load: l, rules: "default rules"}
	var targets [2]*rig.Process
	for i := range targets {
		var err error
		if targets[i], err = rig.Redis(b.work); err != nil {
			return nil, err
		}
		defer targets[i].Stop()
		if err := l.fill(targets[i]); err != nil {
			return nil, err
		}
	}
	args := []string{
		"replay", tape, "--identity", key, "--control", "redis://" + targets[0].Addr, "--test", "cinch=redis://" + targets[1].Addr,
		"--batch", l.batch.String(), "--self-test=false", "--json",
	}
	if dictionary {
		number, err := b.dictionary(l, targets[1])
		if err != nil {
			return nil, err
		}
		t.rules = "zstd-3 with a dictionary of such records"
		args = append(args, "--rule", "key="+l.keys+"*,setting=zstd-3@"+number)
	}
	var out, said bytes.Buffer
	cmd := exec.Command(b.cinch, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	failed := cmd.Run() // a verdict other than PASS exits with an error too
	t.report = &shadow.Report{}
	if err := json.Unmarshal(out.Bytes(), t.report); err != nil {
		return nil, fmt.Errorf("%w: %w: %s", failed, err, said.String())
	}
	for i, target := range targets {
		t.memory[i] = l.memory(target)
	}
	return t, nil
}

// dictionary trains a dictionary on records like those of a load, imports it into a server and returns its
// number.
func (b *bench) dictionary(l load, into *rig.Process) (number string, err error) {
	dir, err := os.MkdirTemp(b.work, "samples-")
	if err != nil {
		return "", err
	}
	for n := range 5000 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), record(1_000_000+n), 0o600); err != nil {
			return "", err
		}
	}
	file := filepath.Join(dir, "records.dict")
	var said []byte
	for _, args := range [][]string{{"train", "--out", file, dir}, {"import", "redis://" + into.Addr, file}, {"show", file}} {
		if said, err = exec.Command(b.cinch, append([]string{"dict"}, args...)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("cinch dict %s: %w\n%s", args[0], err, said)
		}
	}
	return numberIn(string(said))
}

// numberIn finds a dictionary's number in the output of dict show.
func numberIn(text string) (string, error) {
	for word := range strings.FieldsSeq(text) {
		if _, err := strconv.ParseUint(word, 16, 32); err == nil && len(word) == 8 {
			return word, nil
		}
	}
	return "", fmt.Errorf("no number in %q", text)
}

// memory returns the sum of the server's MEMORY USAGE over the keys of a load.
func (l *load) memory(p *rig.Process) (sum int64) {
	c := p.Client()
	defer c.Close()
	for n := range l.values {
		sum += c.MemoryUsage(context.Background(), l.keys+strconv.Itoa(n)).Val()
	}
	return sum
}

// verdictTable formats the results.
func verdictTable(trials []*trial, length time.Duration) string {
	var t rig.Table
	fmt.Fprintf(&t, "%d clients, recorded for %v by `cinch record` (encrypted) and replayed at their pace by `cinch replay --test cinch=URL`: the first half A/A, the second with\n`cinch serve` in front of the test target. Everything on this one machine. Margins are 5 %% for medians, 10 %% for the p99.\n\n", verdictClients, length)
	t.Row("load", "rules", "verdict", "metric", "test to control", "interval", "batches A/A and test", "control, µs", "test, µs", "answers alike, different", "memory of the keys")
	t.Rule(11)
	for _, one := range trials {
		one.rows(&t)
	}
	return t.String()
}

func (t *trial) rows(table *rig.Table) {
	r := t.report
	first := []string{t.load.name, t.rules, r.Outcome}
	last := []string{fmt.Sprintf("%d, %d", r.Compared.Equal, r.Compared.Different), fmt.Sprintf("%.0f %% of the control's", 100*float64(t.memory[1])/float64(t.memory[0]))}
	for _, m := range r.Metrics {
		of, at := r.Reads, 0.5
		if strings.HasPrefix(m.Name, "writes") {
			of = r.Writes
		}
		if strings.HasSuffix(m.Name, "p99") {
			at = 0.99
		}
		interval := "not judged: too few operations a batch"
		switch {
		case m.Judged && m.High < 0:
			interval = "not known yet"
		case m.Judged:
			interval = fmt.Sprintf("%+.1f %% to %+.1f %%", 100*(m.Low-1), 100*(m.High-1))
		}
		c, through := quantile(of, at)
		table.Row(append(append(first, m.Name, fmt.Sprintf("%+.1f %%", 100*(m.Ratio-1)), interval, fmt.Sprintf("%d, %d", m.Baseline, m.Batches), fmt.Sprintf("%.0f", c), fmt.Sprintf("%.0f", through)), last...)...)
		first, last = []string{"", "", ""}, []string{"", ""}
	}
	for _, why := range r.Reasons {
		table.Row("", "", why, "", "", "", "", "", "", "", "")
	}
}

func quantile(of []shadow.Quantile, at float64) (control, test float64) {
	for _, q := range of {
		if q.Q == at {
			return q.Control, q.Test
		}
	}
	return 0, 0
}
