package chaos

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience limits all waits for events that must happen; none should come near it.
const patience = time.Minute

// client is one raw connection, used by one goroutine at a time.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &client{conn: conn, in: bufio.NewReaderSize(conn, 32<<10)}, nil
}

func mustDial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

func (c *client) send(b []byte) error {
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	_, err := c.conn.Write(b)
	return err
}

// frame reads one complete reply. io.EOF means that the connection ended between two replies.
func (c *client) frame() (string, error) {
	var b strings.Builder
	for open := 1; open > 0; open-- {
		line, err := c.in.ReadString('\n')
		if err != nil {
			if err == io.EOF && b.Len()+len(line) > 0 {
				err = fmt.Errorf("%w after %.60q", io.ErrUnexpectedEOF, b.String()+line)
			}
			return "", err
		}
		b.WriteString(line)
		n, _ := strconv.Atoi(strings.TrimSuffix(line[1:], "\r\n"))
		switch {
		case line[0] == '$' && n >= 0:
			if _, err := io.CopyN(&b, c.in, int64(n)+2); err != nil {
				return "", fmt.Errorf("%w in a string of %d bytes", io.ErrUnexpectedEOF, n)
			}
		case line[0] == '*' && n > 0:
			open += n
		}
	}
	return b.String(), nil
}

// do sends one command and returns its reply unparsed.
func (c *client) do(args ...string) (string, error) {
	if err := c.send(request(args...)); err != nil {
		return "", err
	}
	return c.frame()
}

func (c *client) must(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := c.do(args...)
	if err != nil {
		t.Fatalf("%.100q: %v", args, err)
	}
	return reply
}

// text returns the string in a reply.
func text(reply string) string {
	if reply == "" || reply[0] != '$' || strings.HasPrefix(reply, "$-1") {
		return ""
	}
	_, body, _ := strings.Cut(reply, "\r\n")
	return strings.TrimSuffix(body, "\r\n")
}

func request(args ...string) []byte {
	b := []byte("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		b = append(b, "$"+strconv.Itoa(len(a))+"\r\n"+a+"\r\n"...)
	}
	return b
}
