package limits

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
)

// client speaks RESP2 directly, so that a test controls what it holds back.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string) (*client, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{c, bufio.NewReader(c)}, nil
}

// mustDial connects; the connection is closed at the end of the test.
func mustDial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// send writes a request; its last argument is not copied.
func (c *client) send(last []byte, args ...string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args)+1)
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	fmt.Fprintf(&b, "$%d\r\n", len(last))
	bufs := net.Buffers{b.Bytes(), last, []byte("\r\n")}
	_, err := bufs.WriteTo(c.Conn)
	return err
}

// line reads the first line of a reply; a Redis error becomes an error.
func (c *client) line() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if strings.HasPrefix(line, "-") {
		return "", fmt.Errorf("reply: %s", line)
	}
	return line, nil
}

// header reads a line such as "$5" or "*2" and returns its number.
func (c *client) header(kind string) (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	rest, ok := strings.CutPrefix(line, kind)
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("reply %q, want %s with a length", line, kind)
	}
	return n, nil
}

// bulkIs reads a bulk string and compares it with want while reading.
func (c *client) bulkIs(want []byte) error {
	n, err := c.header("$")
	if err != nil {
		return err
	}
	if n != len(want) {
		return fmt.Errorf("a value of %d bytes, want %d", n, len(want))
	}
	var chunk [32 << 10]byte
	for at := 0; at < n; {
		piece := chunk[:min(len(chunk), n-at)]
		if _, err := io.ReadFull(c.r, piece); err != nil {
			return err
		}
		if !bytes.Equal(piece, want[at:at+len(piece)]) {
			return fmt.Errorf("the value differs behind byte %d", at)
		}
		at += len(piece)
	}
	_, err = c.r.Discard(2)
	return err
}

func (c *client) set(key string, value []byte) error {
	if err := c.send(value, "SET", key); err != nil {
		return err
	}
	line, err := c.line()
	if err == nil && line != "+OK" {
		err = fmt.Errorf("SET answered %q", line)
	}
	return err
}

func (c *client) getIs(key string, want []byte) error {
	if err := c.send([]byte(key), "GET"); err != nil {
		return err
	}
	return c.bulkIs(want)
}

// document returns n bytes of JSON that compress to about a quarter.
func document(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 0, n+128)
	for len(b) < n {
		b = fmt.Appendf(b, `{"id":%d,"name":"item-%x","tags":["new","sale"],"price":%d.99,"stock":%d},`,
			rng.IntN(1e9), rng.Uint32(), rng.IntN(500), rng.IntN(100))
	}
	return b[:n]
}

// noise returns n bytes that do not compress.
func noise(n int, seed uint64) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}
