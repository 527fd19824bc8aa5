package pack

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/store/pack"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestWritersWin has clients change values, expiries and types while two packers and an unpacker run. Each
// key has one writer, so that its expected state is known.
func TestWritersWin(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	through := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: server.Addr, Rules: "- {name: all, setting: zstd-1}",
	})
	connect(t, server.Addr).Set(t.Context(), "first", "so that the database is there", 0)
	done := make(chan struct{})
	var walkers, writers sync.WaitGroup
	var mu sync.Mutex
	var replaced, raced int64
	for i := range 3 {
		walkers.Go(func() {
			r := walkUntil(t, server.Addr, i == 2, done)
			mu.Lock()
			defer mu.Unlock()
			replaced, raced = replaced+r.Replaced, raced+r.Conflicts
		})
	}
	models := make([]*model, 6)
	for i := range models {
		models[i] = newModel(t, i, through.Addr, server.Addr)
		writers.Go(func() { models[i].write(codectest.Amount(400, 400, 4000)) })
	}
	writers.Wait()
	close(done)
	walkers.Wait()
	t.Logf("%d values replaced, %d times a writer was faster", replaced, raced)
	if replaced < 100 {
		t.Errorf("the walkers replaced only %d values", replaced)
	}
	for _, m := range models {
		m.check("through the gateway", m.gateway)
	}
	if t.Failed() {
		return
	}
	expect(t, 0, []string{"unpack", server.URL()})
	for _, m := range models {
		m.check("after unpack, without the gateway", m.direct)
	}
}

// walkUntil packs or unpacks repeatedly until done is closed.
func walkUntil(t *testing.T, addr string, unpack bool, done <-chan struct{}) (sum pack.Report) {
	o := inProcess(t, addr)
	o.Task = &pack.Seal{Policy: zstdPolicy(t), Sealer: newSealer(nil)}
	if unpack {
		o.Task = &pack.Unpack{Sealer: newSealer(nil)}
	}
	for {
		r, err := pack.Run(t.Context(), o)
		if err != nil || r.Damaged > 0 {
			t.Errorf("run: %v, %d damaged", err, r.Damaged)
			return sum
		}
		sum.Replaced, sum.Conflicts = sum.Replaced+r.Replaced, sum.Conflicts+r.Conflicts
		select {
		case <-done:
			return sum
		default:
		}
	}
}

// model is one writer with the expected state of its keys.
type model struct {
	t               *testing.T
	gateway, direct *goredis.Client
	keys            map[string]*entry
	names           []string
	random          *rand.Rand
}

type entry struct {
	text    string            // of a string, else ""
	fields  map[string]string // of a hash, else nil
	expires int64             // ms, 0: never
}

func (e *entry) there() bool { return e.text != "" || len(e.fields) > 0 }

func newModel(t *testing.T, number int, through, direct string) *model {
	m := &model{t: t, gateway: connect(t, through), direct: connect(t, direct), keys: map[string]*entry{}}
	for i := range 25 {
		name := fmt.Sprintf("w%d:%d", number, i)
		m.keys[name], m.names = &entry{}, append(m.names, name)
	}
	m.random = rand.New(rand.NewPCG(testenv.Seed(t), uint64(number)))
	return m
}

func (m *model) value() string {
	if m.random.IntN(6) == 0 {
		return strconv.Itoa(1 + m.random.IntN(1e6))
	}
	return document(m.random.IntN(1e6), 1+m.random.IntN(3000))
}

func (m *model) write(times int) {
	for range times {
		name := m.names[m.random.IntN(len(m.names))]
		if err := m.step(name, m.keys[name]); err != nil {
			m.t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// step changes a key in one way. Half of the writes that don't depend on the stored value go directly to
// the server, so that the packers find plain values.
func (m *model) step(name string, e *entry) error {
	ctx, c := m.t.Context(), m.gateway
	if m.random.IntN(2) == 0 {
		c = m.direct
	}
	v := m.value()
	switch m.random.IntN(12) {
	case 0, 1:
		*e = entry{text: v}
		return c.Set(ctx, name, v, 0).Err()
	case 2:
		if !e.there() {
			return nil
		}
		*e = entry{text: v, expires: e.expires}
		return c.Set(ctx, name, v, goredis.KeepTTL).Err()
	case 3, 4:
		if e.fields != nil {
			return nil
		}
		e.text += v
		return m.gateway.Append(ctx, name, v).Err()
	case 5:
		if e.fields != nil || len(e.text) < 10 {
			return nil
		}
		e.text = e.text[:5] + "range" + e.text[min(10, len(e.text)):]
		return m.gateway.SetRange(ctx, name, 5, "range").Err()
	case 6:
		if !e.there() {
			return nil
		}
		e.expires = 4102444800000 + m.random.Int64N(1e9)
		return c.Do(ctx, "pexpireat", name, e.expires).Err()
	case 7:
		e.expires = 0
		return c.Persist(ctx, name).Err()
	case 8:
		*e = entry{}
		return c.Del(ctx, name).Err()
	case 9, 10:
		return m.stepHash(name, e, v, c)
	}
	return m.read(name, e)
}

func (m *model) stepHash(name string, e *entry, v string, c *goredis.Client) error {
	ctx := m.t.Context()
	if e.text != "" { // the type changes
		*e = entry{}
		if err := c.Del(ctx, name).Err(); err != nil {
			return err
		}
	}
	field := fmt.Sprint("f", m.random.IntN(5))
	if e.fields == nil {
		e.fields = map[string]string{}
	}
	if m.random.IntN(4) == 0 {
		delete(e.fields, field)
		if len(e.fields) == 0 {
			*e = entry{}
		}
		return c.HDel(ctx, name, field).Err()
	}
	e.fields[field] = v
	return c.HSet(ctx, name, field, v).Err()
}

func (m *model) read(name string, e *entry) error {
	if e.fields != nil {
		got, err := m.gateway.HGetAll(m.t.Context(), name).Result()
		if err == nil && !maps.Equal(got, e.fields) {
			err = fmt.Errorf("holds fields %v", slices.Sorted(maps.Keys(got)))
		}
		return err
	}
	got, err := m.gateway.Get(m.t.Context(), name).Result()
	if err == goredis.Nil {
		got, err = "", nil
	}
	if err == nil && got != e.text {
		err = fmt.Errorf("holds %d bytes %.50q, want %d %.50q", len(got), got, len(e.text), e.text)
	}
	return err
}

// check compares the stored data with the model.
func (m *model) check(how string, c *goredis.Client) {
	ctx := m.t.Context()
	m.gateway = c
	for name, e := range m.keys {
		if err := m.read(name, e); err != nil {
			m.t.Errorf("%s: %s: %v", how, name, err)
		}
		want := time.Duration(-2)
		switch {
		case e.there() && e.expires == 0:
			want = -1
		case e.there():
			want = time.Duration(e.expires) * time.Millisecond
		}
		if got := c.PExpireTime(ctx, name).Val(); got != want {
			m.t.Errorf("%s: %s expires at %v, want %v", how, name, got, want)
		}
	}
}
