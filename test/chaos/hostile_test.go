package chaos

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// planted is a stored value that looks like an envelope and can't be opened.
type planted struct {
	name  string
	value string
	says  string // part of the error reply
}

func seal(t testing.TB, value string, id codec.ID) string {
	t.Helper()
	always := func(int, int) bool { return true }
	return string(envelope.NewSealer(envelope.SealerOptions{}).Seal(nil, []byte(value), codec.Setting{Codec: id}, always))
}

// header builds an envelope's header that Seal never writes.
func header(second, flags byte, rawLen uint64, sum uint32, more ...byte) string {
	b := append([]byte(envelope.Magic), second, flags)
	b = binary.AppendUvarint(b, rawLen)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return string(append(b, more...))
}

func damages(t testing.TB) []planted {
	body := strings.Repeat("what was stored; ", 100)
	good := seal(t, body, codec.LZ4)
	flip := func(at int) string {
		b := []byte(good)
		b[(at+len(b))%len(b)] ^= 0x41
		return string(b)
	}
	sum := crc32.ChecksumIEEE([]byte("x"))
	return []planted{
		{"only the magic", string(envelope.Magic), "damaged"},
		{"header cut off", good[:7], "damaged"},
		{"payload cut off", good[:len(good)-5], "damaged"},
		{"no payload", good[:11], "damaged"},
		{"bytes behind it", good + "more", "damaged"},
		{"a flipped payload byte", flip(-3), "damaged"},
		{"a flipped checksum", flip(7), "damaged"},
		{"unknown version", header(0xf0, 0, 1, sum, 'x'), "damaged"},
		{"unknown codec", header(0x1f, 0, 1, sum, 'x'), "codec"},
		{"reserved flag", header(0x10, 0x40, 1, sum, 'x'), "damaged"},
		{"a missing dictionary", header(0x15, 0x80, 100, sum, 0, 0, 0, 0, 1, 2, 3, 4, 'x', 'y'), "damaged or its dictionary is missing"},
		{"1 GB declared", header(0x15, 0, 1<<30, sum, 'x'), "limit"},
		{"a length of 2^63", header(0x15, 0, 1<<63, sum, 'x'), "damaged"},
		{"a padded length", string(envelope.Magic) + "\x10\x00\x81\x80\x00" + "\x00\x00\x00\x00x", "damaged"},
		{"raw with a wrong length", header(0x10, 0, 5, sum, 'x'), "damaged"},
	}
}

// Commands on a value that can't be opened are answered with an error that names the problem, in the right
// place among other replies. The connection stays usable, and the value unchanged.
func TestDamagedValuesAreErrors(t *testing.T) {
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr})
	direct, c := mustDial(t, server.Addr), mustDial(t, g.Addr)
	for _, d := range damages(t) {
		t.Run(d.name, func(t *testing.T) { checkDamaged(t, d, g, direct, c) })
	}
}

func checkDamaged(t *testing.T, d planted, g *testenv.GatewayServer, direct, c *client) {
	direct.must(t, "FLUSHALL")
	direct.must(t, "SET", "bad", d.value)
	direct.must(t, "HSET", "hash", "bad", d.value, "good", "fine")
	direct.must(t, "XADD", "stream", "1-1", "field", d.value)
	direct.must(t, "SET", "good", "fine")
	before := g.Metric(t, "cinch_errors_total")
	asked := 0
	for _, command := range [][]string{
		{"GET", "bad"},
		{"GETRANGE", "bad", "0", "3"},
		{"BITCOUNT", "bad"},
		{"GETBIT", "bad", "1"},
		{"BITPOS", "bad", "1"},
		{"BITFIELD_RO", "bad", "GET", "u8", "0"},
		{"APPEND", "bad", "x"},
		{"SETRANGE", "bad", "0", "x"},
		{"SETBIT", "bad", "1", "1"},
		{"BITFIELD", "bad", "SET", "u8", "0", "1"},
		{"BITOP", "NOT", "dest", "bad"},
		{"LCS", "bad", "good"},
		{"INCRBYFLOAT", "bad", "1"},
		{"HINCRBYFLOAT", "hash", "bad", "1"},
		{"EVAL", "return redis.call('GET',KEYS[1])", "1", "bad"},
		{"GETEX", "bad"},
		{"HGET", "hash", "bad"},
	} {
		reply := c.must(t, command...)
		asked++
		if reply[0] != '-' || !strings.Contains(reply, d.says) {
			t.Errorf("%q: got %.120q, want an error with %q", command, reply, d.says)
		}
	}
	if got := c.must(t, "MGET", "good", "bad", "good"); !regexp.MustCompile(`^\*3\r\n\$4\r\nfine\r\n-ERR cinch: [^\r]*\r\n\$4\r\nfine\r\n$`).MatchString(got) {
		t.Errorf("MGET: %q", got)
	}
	if got := c.must(t, "HGETALL", "hash"); !strings.Contains(got, "fine") || !strings.Contains(got, "-ERR cinch") {
		t.Errorf("HGETALL: %q", got)
	}
	if got := c.must(t, "XRANGE", "stream", "-", "+"); !strings.Contains(got, "field") || !strings.Contains(got, "-ERR cinch") {
		t.Errorf("XRANGE: %q", got)
	}
	if counted := g.Metric(t, "cinch_errors_total") - before; counted < float64(asked+3) {
		t.Errorf("%v errors were counted, %d answered", counted, asked+3)
	}
	if got := text(direct.must(t, "GET", "bad")); got != d.value {
		t.Errorf("the stored value became %.60q", got)
	}
	if got := c.must(t, "PING"); got != "+PONG\r\n" {
		t.Errorf("PING: %q", got)
	}
	if got := c.must(t, "SET", "bad", "good again"); got != "+OK\r\n" || text(c.must(t, "GET", "bad")) != "good again" {
		t.Errorf("a new value in its place: %q", got)
	}
}

// Twenty bytes that declare a gigabyte, and frames that expand to more than they declare, cost hardly any
// memory, however many clients read them.
func TestHostileValuesTakeNoMemory(t *testing.T) {
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr})
	direct := mustDial(t, server.Addr)
	direct.must(t, "SET", "gigabyte", header(0x15, 0, 1<<30, 0, 'x'))
	zeros := seal(t, strings.Repeat("\x00", 30<<20), codec.Zstd)
	_, at := binary.Uvarint([]byte(zeros)[5:])
	direct.must(t, "SET", "bomb", header(0x15, 0, 100, 0)+zeros[5+at+4:])

	before := rss(t, g.Pid())
	askAll(t, g.Addr, 50, codectest.Amount(1, 5, 40), "-ERR cinch: ", "gigabyte", "bomb")
	limit := before + 100<<20
	if after := rss(t, g.Pid()); after > limit {
		t.Errorf("resident memory went from %d to %d MiB", before>>20, after>>20)
	}

	// Decompression is limited by the budget: 20 clients request 30 MiB each.
	direct.must(t, "SET", "zeros", zeros)
	askAll(t, g.Addr, 20, 1, "$31457280\r\n", "zeros")
	const budget = 256 << 20
	if after := peak(t, g.Pid()); after > before+2*budget {
		t.Errorf("resident memory peaked at %d MiB with a budget of 256 MiB", after>>20)
	}
}

// askAll has many clients read some keys. Each reply must be complete and begin with want.
func askAll(t *testing.T, addr string, clients, times int, want string, keys ...string) {
	t.Helper()
	var all sync.WaitGroup
	for range clients {
		c := mustDial(t, addr)
		all.Go(func() {
			for range times {
				for _, k := range keys {
					if reply, err := c.do("GET", k); err != nil || !strings.HasPrefix(reply, want) {
						t.Errorf("GET %s: %.60q, %v; want %q…", k, reply, err, want)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

func rss(t *testing.T, pid int) int64  { return testenv.ProcessMemory(t, pid, "VmRSS") }
func peak(t *testing.T, pid int) int64 { return testenv.ProcessMemory(t, pid, "VmHWM") }

// Requests that violate the protocol are answered as the server answers them. Those that declare much and
// send little hold no memory.
func TestHostileRequests(t *testing.T) {
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr})
	for _, raw := range []string{
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-1\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$99999999999999999999\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$+5\r\nhello\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$ 5\r\nhello\r\n",
		"*99999999999\r\n",
		"*2147483648\r\n",
		"*1\r\n!3\r\nGET\r\n",
		"*1\r\n\r\n",
		"$5\r\nxyzzy\r\n",
		"SET k 'unbalanced\r\n",
	} {
		var want, got string
		for _, silence := range []time.Duration{300 * time.Millisecond, 3 * time.Second, patience} {
			if want, got = lastWords(t, server.Addr, raw, silence), lastWords(t, g.Addr, raw, silence); got == want {
				break // otherwise one of the two may only have been slow
			}
		}
		if got != want {
			t.Errorf("%q:\n  plain:   %q\n  gateway: %q", raw, want, got)
		}
	}
	before := rss(t, g.Pid())
	promise(t, g.Addr)
	if after := rss(t, g.Pid()); after > before+150<<20 {
		t.Errorf("resident memory went from %d to %d MiB", before>>20, after>>20)
	}
	c := mustDial(t, g.Addr)
	if got := c.must(t, "PING"); got != "+PONG\r\n" {
		t.Errorf("PING: %q", got)
	}
	noise(t, g)
}

// lastWords sends raw bytes and a PING, and returns everything received until the connection ends, or until
// nothing more arrives for a while.
func lastWords(t *testing.T, addr, raw string, silence time.Duration) string {
	t.Helper()
	c := mustDial(t, addr)
	defer c.conn.Close()
	_ = c.send([]byte(raw))
	var out strings.Builder
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(silence))
		reply, err := c.frame()
		out.WriteString(reply)
		if err != nil {
			if os.IsTimeout(err) {
				return out.String() + "(still open)"
			}
			return out.String()
		}
	}
}

// promise opens many connections that declare large requests and send only a part.
func promise(t *testing.T, addr string) {
	starts := []string{
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n",
		"*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$30000000\r\n",
		"*1000000\r\n$4\r\nMSET\r\n",
		"*1000000\r\n$4\r\nEVAL\r\n$1\r\nx\r\n$3\r\n500\r\n",
		"*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$33000000\r\n",
	}
	for i := range 200 {
		c := mustDial(t, addr)
		if err := c.send([]byte(starts[i%len(starts)] + strings.Repeat("x", 10_000))); err != nil {
			continue // refused already
		}
	}
	time.Sleep(200 * time.Millisecond)
}

// noise sends random bytes on many connections; the gateway must survive.
func noise(t *testing.T, g *testenv.GatewayServer) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	pieces := []string{"*3\r\n", "$3\r\nSET\r\n", "$1\r\nk\r\n", "$5\r\nhello\r\n", "\r\n", "PING\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n", "\x00\xff", "EXEC\r\n", "MULTI\r\n", "APPEND k v\r\n", "HELLO 3\r\n", "CLIENT REPLY OFF\r\n", "SUBSCRIBE x\r\n", "RESET\r\n", "*1\r\n$4\r\nQUIT\r\n"}
	for range codectest.Amount(10, 100, 300) {
		c, err := dial(g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for range r.IntN(30) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		_ = c.send([]byte(b.String()))
		_ = c.conn.Close()
	}
	c := mustDial(t, g.Addr)
	if got := c.must(t, "PING"); got != "+PONG\r\n" {
		t.Errorf("PING after noise: %q", got)
	}
}
