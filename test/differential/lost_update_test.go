package differential

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Several clients write to the same keys through two gateways, each to a part of its own (letter, offset,
// field, bits). Meanwhile two other clients compress those keys repeatedly: one with optimistic
// transactions through a gateway, one as a packer does, by compare-and-set on the server. At the end no
// acknowledged write may be missing.

const (
	writers      = 6
	opsPerWriter = 1_200
	appendKeys   = 2
)

// padding makes the shared values long enough to be worth compressing.
var padding = strings.Repeat("-", 4*writers+200)

// writer is one client with a record of its acknowledged writes.
type writer struct {
	id    int
	c     *client
	r     *rand.Rand
	count struct{ field, number, float, bits int }

	appended [appendKeys]int
	slot     string // last value written at its own offset
	own      string // last value of its own hash field
	busy     int    // errors that ask to try again
}

func TestNoLostUpdates(t *testing.T) {
	server := testenv.Redis(t)
	gateways := []string{
		testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Force: true}).Addr,
		testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr, Force: true}).Addr,
	}
	seed := testenv.Seed(t)
	prepareShared(t, gateways[0])

	stop := make(chan struct{})
	var sealers, workers sync.WaitGroup
	var packed, resealed atomic.Int64
	sealers.Go(func() { packShared(t, server.Addr, stop, &packed) })
	sealers.Go(func() { resealShared(t, gateways[1], stop, &resealed) })
	all := make([]*writer, writers)
	for i := range all {
		all[i] = newWriter(t, i, gateways[i%2], seed)
		workers.Go(func() { all[i].work(t) })
	}
	workers.Wait()
	close(stop)
	sealers.Wait()

	busy := 0
	for _, w := range all {
		busy += w.busy
	}
	t.Logf("%d writes; packed %d and resealed %d times meanwhile; %d asked to try again", writers*opsPerWriter, packed.Load(), resealed.Load(), busy)
	if packed.Load() == 0 || resealed.Load() == 0 {
		t.Error("nothing was sealed while the clients wrote")
	}
	checkShared(t, gateways[1], all)
}

func newWriter(t *testing.T, id int, addr string, seed uint64) *writer {
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return &writer{id: id, c: c, r: rand.New(rand.NewPCG(seed, uint64(id))), slot: "----"}
}

func prepareShared(t *testing.T, addr string) {
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, args := range [][]string{
		{"SET", "slots", padding},
		{"SET", "fields", strings.Repeat("\x00", 4*writers)},
		{"SET", "bits", padding},
		{"SET", "float", "1000000000000000.5"},
		{"SET", "number", "0"},
		{"SET", "app:0", padding},
		{"SET", "app:1", padding},
		{"HSET", "hash", "float", "1000000000000000.5"},
	} {
		if _, err := c.do(args...); err != nil {
			t.Fatal(err)
		}
	}
}

var sharedStrings = []string{"slots", "fields", "bits", "float", "app:0", "app:1"}

// packShared compresses shared values on the server with compare-and-set.
func packShared(t *testing.T, addr string, stop chan struct{}, n *atomic.Int64) {
	const swap = "if redis.call('GET',KEYS[1])==ARGV[1] then redis.call('SET',KEYS[1],ARGV[2],'KEEPTTL') return 1 end return 0"
	c, err := dial(addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.close()
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	always := func(int, int) bool { return true }
	for i := 0; !closed(stop); i++ {
		key := sharedStrings[i%len(sharedStrings)]
		v, err := c.do("GET", key)
		if err != nil {
			t.Error(err)
			return
		}
		if envelope.IsSealed([]byte(v.text)) {
			continue
		}
		sealed := sealer.Seal(nil, []byte(v.text), codec.Setting{Codec: codec.LZ4}, always)
		ok, err := c.do("EVAL", swap, "1", key, v.text, string(sealed))
		if err != nil {
			t.Error(err)
			return
		}
		if ok.text == "1" {
			n.Add(1)
		}
	}
}

// resealShared reads values and writes them back in a transaction that fails if they were changed in
// between.
func resealShared(t *testing.T, addr string, stop chan struct{}, n *atomic.Int64) {
	c, err := dial(addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.close()
	for i := 0; !closed(stop); i++ {
		key := sharedStrings[i%len(sharedStrings)]
		if _, err := c.do("WATCH", key); err != nil {
			t.Error(err)
			return
		}
		v, err := c.do("GET", key)
		if err != nil || v.kind != '$' {
			t.Errorf("GET %s: %v %v", key, v, err)
			return
		}
		request := encode(nil, [][]byte{[]byte("MULTI")})
		write := []string{"SET", key, v.text, "KEEPTTL"}
		if i%2 == 0 {
			write = []string{"GETSET", key, v.text}
		}
		request = encode(request, words(write...))
		request = encode(request, words("EXEC"))
		frames, err := c.pipeline(request, 3)
		if err != nil {
			t.Error(err)
			return
		}
		if string(frames[2]) != "*-1\r\n" {
			n.Add(1)
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func words(w ...string) [][]byte {
	out := make([][]byte, len(w))
	for i := range w {
		out[i] = []byte(w[i])
	}
	return out
}

// write is one command of a writer. done updates the writer's record after the command was executed.
type write struct {
	args []string
	done func(reply *node) error
}

func (w *writer) work(t *testing.T) {
	for n := 0; n < opsPerWriter; {
		batch := make([]write, 1+w.r.IntN(6))
		for i := range batch {
			batch[i] = w.next()
		}
		n += len(batch)
		var err error
		if w.r.IntN(5) == 0 {
			err = w.transact(batch)
		} else {
			err = w.pipeline(batch)
		}
		if err != nil {
			t.Errorf("client %d: %v", w.id, err)
			return
		}
	}
}

func (w *writer) pipeline(batch []write) error {
	var request []byte
	for _, x := range batch {
		request = encode(request, words(x.args...))
	}
	frames, err := w.c.pipeline(request, len(batch))
	if err != nil {
		return err
	}
	for i, frame := range frames {
		reply, err := parse(frame)
		if err == nil {
			err = w.account(batch[i], reply)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) transact(batch []write) error {
	request := encode(nil, words("MULTI"))
	for _, x := range batch {
		request = encode(request, words(x.args...))
	}
	frames, err := w.c.pipeline(encode(request, words("EXEC")), len(batch)+2)
	if err != nil {
		return err
	}
	exec, err := parse(frames[len(frames)-1])
	if err != nil {
		return err
	}
	if len(exec.items) != len(batch) {
		return fmt.Errorf("EXEC of %d commands answers %.200s", len(batch), exec)
	}
	for i, reply := range exec.items {
		if err := w.account(batch[i], reply); err != nil {
			return fmt.Errorf("in a transaction: %w", err)
		}
	}
	return nil
}

// account handles a reply. A command that was refused has had no effect.
func (w *writer) account(x write, reply *node) error {
	if reply.kind == '-' && strings.Contains(reply.text, "try again") {
		w.busy++
		return nil
	}
	if reply.kind == '-' {
		return fmt.Errorf("%q: %s", x.args, reply.text)
	}
	if err := x.done(reply); err != nil {
		return fmt.Errorf("%q: %w", x.args, err)
	}
	return nil
}

func isInt(n *node, want int) error {
	if n.kind != ':' || n.text != strconv.Itoa(want) {
		return fmt.Errorf("got %s, want %d", n, want)
	}
	return nil
}

func (w *writer) next() write {
	switch w.r.IntN(8) {
	case 0, 1:
		return w.append()
	case 2:
		return w.writeSlot()
	case 3:
		return write{
			[]string{"BITFIELD", "fields", "INCRBY", "u32", "#" + strconv.Itoa(w.id), "1"},
			func(n *node) error {
				w.count.field++
				if len(n.items) != 1 {
					return fmt.Errorf("got %s", n)
				}
				return isInt(n.items[0], w.count.field)
			},
		}
	case 4:
		return write{
			[]string{"SETBIT", "bits", strconv.Itoa(100_000*w.id + 8*len(padding) + w.r.IntN(100_000)), "1"},
			func(n *node) error {
				if n.text == "0" {
					w.count.bits++
				}
				return nil
			},
		}
	case 5:
		return w.numbers()
	case 6:
		value := strings.Repeat(strconv.Itoa(w.r.IntN(1e9)), 1+w.r.IntN(30))
		return write{[]string{"HSET", "hash", "own" + strconv.Itoa(w.id), value}, func(*node) error { w.own = value; return nil }}
	}
	return write{
		[]string{"GETRANGE", "slots", strconv.Itoa(4 * w.id), strconv.Itoa(4*w.id + 3)},
		func(n *node) error {
			if n.text != w.slot {
				return fmt.Errorf("got %q, last wrote %q", n.text, w.slot)
			}
			return nil
		},
	}
}

func (w *writer) append() write {
	i := w.r.IntN(appendKeys)
	key, letter := "app:"+strconv.Itoa(i), string(rune('a'+w.id))
	args := []string{"APPEND", key, letter}
	if w.r.IntN(4) == 0 {
		args = []string{"EVAL", "return redis.call('APPEND',KEYS[1],ARGV[1])", "1", key, letter}
	}
	return write{args, func(*node) error { w.appended[i]++; return nil }}
}

func (w *writer) writeSlot() write {
	value := fmt.Sprintf("%04d", w.r.IntN(10_000))
	return write{
		[]string{"SETRANGE", "slots", strconv.Itoa(4 * w.id), value},
		func(*node) error { w.slot = value; return nil },
	}
}

func (w *writer) numbers() write {
	switch w.r.IntN(3) {
	case 0:
		return write{[]string{"INCR", "number"}, func(*node) error { w.count.number++; return nil }}
	case 1:
		return write{[]string{"INCRBYFLOAT", "float", "1"}, func(*node) error { w.count.float++; return nil }}
	}
	return write{[]string{"HINCRBYFLOAT", "hash", "float", "0"}, func(*node) error { return nil }}
}

// checkShared compares the stored values with the writers' records.
func checkShared(t *testing.T, addr string, all []*writer) {
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	get := func(args ...string) string {
		n, err := c.do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return n.text
	}
	var number, float, bits, total int
	for _, w := range all {
		number, float, bits = number+w.count.number, float+w.count.float, bits+w.count.bits
		if got := get("GETRANGE", "slots", strconv.Itoa(4*w.id), strconv.Itoa(4*w.id+3)); got != w.slot {
			t.Errorf("client %d: slot holds %q, last wrote %q", w.id, got, w.slot)
		}
		if got := get("HGET", "hash", "own"+strconv.Itoa(w.id)); got != w.own {
			t.Errorf("client %d: field holds %.40q, last wrote %.40q", w.id, got, w.own)
		}
		for i, n := range w.appended {
			total += n
			if got := strings.Count(get("GET", "app:"+strconv.Itoa(i)), string(rune('a'+w.id))); got != n {
				t.Errorf("client %d: app:%d holds %d of its letters, %d were acknowledged", w.id, i, got, n)
			}
		}
	}
	if got := get("STRLEN", "app:0"); got != strconv.Itoa(len(get("GET", "app:0"))) {
		t.Errorf("STRLEN %s of what GET returns otherwise", got)
	}
	if got := get("GET", "number"); got != strconv.Itoa(number) {
		t.Errorf("number is %s, %d increments were acknowledged", got, number)
	}
	if got := get("GET", "float"); got != strconv.Itoa(1000000000000000+float)+".5" {
		t.Errorf("float is %s, %d increments were acknowledged", got, float)
	}
	if got := get("BITCOUNT", "bits", strconv.Itoa(len(padding)), "-1"); got != strconv.Itoa(bits) {
		t.Errorf("%s bits are set, %d were acknowledged", got, bits)
	}
}
