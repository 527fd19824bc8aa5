package differential

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// replyTimeout limits the wait for a reply: the slowest are LCS and scripts on megabytes.
const replyTimeout = time.Minute

// client is one raw connection. It is used by one goroutine at a time.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (c *client) close() {
	if c != nil {
		_ = c.conn.Close()
	}
}

// pipeline sends requests and returns the n reply frames. It writes and reads at the same time, since
// otherwise both ends could wait for each other.
func (c *client) pipeline(requests []byte, n int) ([][]byte, error) {
	_ = c.conn.SetDeadline(time.Now().Add(replyTimeout))
	sent := make(chan error, 1)
	go func() {
		_, err := c.conn.Write(requests)
		sent <- err
	}()
	replies := make([][]byte, 0, n)
	for len(replies) < n {
		frame, err := c.frame()
		if err != nil {
			return replies, fmt.Errorf("reply %d of %d: %w", len(replies)+1, n, err)
		}
		replies = append(replies, frame)
	}
	return replies, <-sent
}

// lastWords sends raw bytes and returns everything that is received until the connection ends.
func (c *client) lastWords(raw []byte) ([]byte, error) {
	_ = c.conn.SetDeadline(time.Now().Add(replyTimeout))
	if _, err := c.conn.Write(raw); err != nil {
		return nil, err
	}
	return io.ReadAll(c.in)
}

// do sends one command and returns its reply as a tree.
func (c *client) do(args ...string) (*node, error) {
	b := make([][]byte, len(args))
	for i, a := range args {
		b[i] = []byte(a)
	}
	frames, err := c.pipeline(encode(nil, b), 1)
	if err != nil {
		return nil, err
	}
	return parse(frames[0])
}

// frame reads one complete frame. Unsolicited pushes do not occur here.
func (c *client) frame() ([]byte, error) {
	var frame []byte
	for open := 1; open > 0; open-- {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		frame = append(frame, line...)
		if len(line) < 3 {
			return nil, fmt.Errorf("short line %q", line)
		}
		switch line[0] {
		case '$', '=', '!':
			if frame, err = c.body(frame, line); err != nil {
				return nil, err
			}
		case '*', '~', '>', '%', '|':
			n, err := elements(line)
			if err != nil {
				return nil, err
			}
			open += n
			if line[0] == '|' {
				open++
			}
		}
	}
	return frame, nil
}

func (c *client) body(frame, line []byte) ([]byte, error) {
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n < 0 {
		return frame, err
	}
	at := len(frame)
	frame = append(frame, make([]byte, n+2)...)
	_, err = io.ReadFull(c.in, frame[at:])
	return frame, err
}

// elements returns the number of frames that follow the first line of an aggregate.
func elements(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSuffix(line[1:], []byte("\r\n"))))
	if err != nil || n < 0 {
		return 0, err
	}
	if line[0] == '%' || line[0] == '|' {
		n *= 2
	}
	return n, nil
}

// encode appends a request as an array of bulk strings.
func encode(dst []byte, args [][]byte) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	dst = append(dst, "\r\n"...)
	for _, a := range args {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(a)), 10)
		dst = append(dst, "\r\n"...)
		dst = append(dst, a...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}
