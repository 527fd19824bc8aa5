package compute

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestComputeAgainstServer sends random commands to a real server and compares its replies byte by byte with
// those of Answer for the same value.
func TestComputeAgainstServer(t *testing.T) {
	server := testenv.Redis(t)
	seed := testenv.Seed(t)
	for version := 2; version <= 3; version++ {
		t.Run(fmt.Sprintf("RESP%d", version), func(t *testing.T) {
			c := dialCompute(t, server.Addr)
			c.do(t, [][]byte{[]byte("HELLO"), strconv.AppendInt(nil, int64(version), 10)})
			g := computeGen{rand.New(rand.NewPCG(seed, uint64(version)))}
			tuples := 60000
			if testing.Short() {
				tuples = 6000
			}
			for done := 0; done < tuples; done += 200 {
				compareBatch(t, c, g, 200)
			}
		})
	}
}

// compareBatch stores one random value (or none) and compares n commands on it.
func compareBatch(t *testing.T, c *computeConn, g computeGen, n int) {
	t.Helper()
	value, exists := g.value(), g.IntN(10) > 0
	c.do(t, words("DEL", "k", "h"))
	if exists {
		c.do(t, [][]byte{[]byte("SET"), []byte("k"), value})
		c.do(t, [][]byte{[]byte("HSET"), []byte("h"), []byte("f"), value})
	}
	batch := make([][][]byte, n)
	var out []byte
	for i := range batch {
		batch[i] = g.command(len(value))
		out = resp.AppendArgs(out, batch[i])
	}
	c.write(t, out)
	for _, args := range batch {
		want := c.reply(t)
		if got := Answer(nil, args, value, exists); string(got) != string(want) {
			t.Fatalf("%q on %d bytes %.80q (exists %v): %q, the server says %q", args, len(value), value, exists, got, want)
		}
	}
}

func words(w ...string) [][]byte {
	args := make([][]byte, len(w))
	for i := range w {
		args[i] = []byte(w[i])
	}
	return args
}

// computeGen generates commands with valid and invalid arguments.
type computeGen struct{ *rand.Rand }

func (g computeGen) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g computeGen) value() []byte {
	b := make([]byte, []int{0, 1, 2, 7, 8, 9, 16, 17, 40, 300}[g.IntN(10)])
	switch g.IntN(5) {
	case 0: // all zeros
	case 1:
		for i := range b {
			b[i] = 0xff
		}
	case 2: // one byte differs
		for i := range b {
			b[i] = 0xff
		}
		if len(b) > 0 {
			b[g.IntN(len(b))] = byte(g.Uint32())
		}
	case 3:
		return strconv.AppendInt(nil, int64(g.Uint64()>>g.IntN(64)), 10)
	default:
		for i := range b {
			b[i] = byte(g.Uint32())
		}
	}
	return b
}

// number returns positions around the boundaries of n bytes, in bytes and in bits.
func (g computeGen) number(n int) string {
	switch g.IntN(12) {
	case 0:
		return g.pick("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
			"4294967295", "4294967296", "2147483647", "-2147483648", "4294967288", "1152921504606846975", "18446744073709551616")
	case 1:
		return g.pick("", "x", "1x", "+1", " 1", "1 ", "01", "-", "-0", "1.0", "0x1", "1\x00", "#1", "#", "1e3")
	case 2:
		return strconv.FormatInt(int64(g.Uint64()), 10)
	case 3, 4:
		return strconv.Itoa(g.IntN(9) - 4)
	case 5, 6:
		return strconv.Itoa(n + g.IntN(5) - 2)
	case 7:
		return strconv.Itoa(-n + g.IntN(5) - 2)
	case 8:
		return strconv.Itoa(n*8 + g.IntN(19) - 9)
	case 9:
		return strconv.Itoa(-n*8 + g.IntN(19) - 9)
	}
	return strconv.Itoa(g.IntN(2*n*8+3) - n*8 - 1)
}

func (g computeGen) unit() string {
	return g.pick("bit", "BIT", "Bit", "byte", "BYTE", "bIT", "BYTe", "", "bits", "bit\x00x", "b", "1")
}

func (g computeGen) command(n int) [][]byte {
	var w []string
	switch g.IntN(9) {
	case 0:
		w = []string{g.pick("strlen", "STRLEN", "StrLen"), "k"}
	case 1:
		w = []string{g.pick("hstrlen", "HSTRLEN"), "h", "f"}
	case 2:
		w = []string{g.pick("getrange", "GETRANGE", "substr", "SubStr"), "k", g.number(n), g.number(n)}
	case 3:
		w = []string{g.pick("getbit", "GETBIT"), "k", g.number(n)}
	case 4, 5:
		w = append([]string{g.pick("bitcount", "BITCOUNT"), "k"}, g.bitRange(n)...)
	case 6, 7:
		w = []string{g.pick("bitpos", "BITPOS"), "k", g.pick("0", "1", "0", "1", "0", "1", "2", "-1", "x")}
		w = append(w, g.bitRange(n)...)
	default:
		w = g.bitfield(n)
	}
	if g.IntN(40) == 0 {
		w = append(w, "extra")
	} else if g.IntN(40) == 0 && len(w) > 1 {
		w = w[:len(w)-1]
	}
	return words(w...)
}

func (g computeGen) bitRange(n int) []string {
	all := []string{g.number(n), g.number(n), g.unit()}
	return all[:[]int{0, 1, 2, 2, 2, 3, 3, 3}[g.IntN(8)]]
}

func (g computeGen) bitfield(n int) []string {
	w := []string{g.pick("bitfield_ro", "BITFIELD_RO"), "k"}
	for range g.IntN(4) {
		op := []string{g.pick("get", "GET", "Get", "get\x00"), g.fieldType(), g.pick("", "", "#") + g.number(n)}
		switch {
		case g.IntN(12) == 0:
			op = append(op, g.number(n))
			op[0] = g.pick("set", "INCRBY")
		case g.IntN(15) == 0:
			op = []string{"overflow", g.pick("wrap", "SAT", "fail", "none", "")}
		case g.IntN(30) == 0:
			op[0] = "nonsense"
		}
		w = append(w, op...)
	}
	return w
}

func (g computeGen) fieldType() string {
	if g.IntN(10) == 0 {
		return g.pick("u0", "i0", "u64", "i65", "u", "i", "", "x8", "U8", "u-1", "u08", "i8x", "i8\x00x")
	}
	if g.IntN(2) == 0 {
		return "u" + strconv.Itoa(1+g.IntN(63))
	}
	return "i" + strconv.Itoa(1+g.IntN(64))
}

// computeConn reads the raw bytes of replies.
type computeConn struct {
	net.Conn
	r   *bufio.Reader
	buf []byte
}

func dialCompute(t *testing.T, addr string) *computeConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &computeConn{Conn: c, r: bufio.NewReader(c)}
}

func (c *computeConn) write(t *testing.T, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func (c *computeConn) do(t *testing.T, args [][]byte) {
	t.Helper()
	c.write(t, resp.AppendArgs(nil, args))
	if r := c.reply(t); r[0] == '-' {
		t.Fatalf("%q: %s", args, r)
	}
}

// reply returns the next reply; it is valid until the next call.
func (c *computeConn) reply(t *testing.T) []byte {
	t.Helper()
	c.buf = c.buf[:0]
	if err := c.element(); err != nil {
		t.Fatal(err)
	}
	return c.buf
}

func (c *computeConn) element() error {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	c.buf = append(c.buf, line...)
	head, err := resp.ParseHead(line)
	switch {
	case err != nil || head.N < 0:
		return err
	case head.IsString():
		at := len(c.buf)
		c.buf = append(c.buf, make([]byte, head.N+2)...)
		_, err = io.ReadFull(c.r, c.buf[at:])
	case head.IsAggregate():
		for i := int64(0); i < head.N && err == nil; i++ {
			err = c.element()
		}
	}
	return err
}
