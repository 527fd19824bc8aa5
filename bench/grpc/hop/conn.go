//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	window     = 1 << 30 // receive window of a connection
	streamMost = 8 << 20 // receive window of a stream
	readAhead  = 64 << 10
	maxPending = 900 // calls on a connection; gateways and servers allow 1,000
)

// conn is a connection that makes calls with HTTP/2 frames. One goroutine reads.
type conn struct {
	net     net.Conn
	head    []byte // header block of every request; it uses no dynamic table, so it is constant
	message []byte // with its prefix
	done    func(sent time.Time, ok bool)

	mu      sync.Mutex
	changed sync.Cond
	next    uint32
	sent    map[uint32]time.Time
	room    int64 // bytes that may be sent
	frame   int   // bytes that fit a frame
	buf     bytes.Buffer
	fr      *http2.Framer // writes to buf
	err     error
	closed  bool
}

// dial connects, and returns when the server's windows are known. The reading goroutine calls done for each
// call.
func dial(addr string, message []byte, done func(sent time.Time, ok bool)) (*conn, error) {
	n, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{net: n, message: prefixed(message), done: done, next: 1, sent: map[uint32]time.Time{}, room: 65535, frame: 16 << 10}
	c.changed.L = &c.mu
	c.head = headerBlock(addr)
	c.fr = http2.NewFramer(&c.buf, nil)
	c.buf.WriteString(http2.ClientPreface)
	_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamMost}, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	_ = c.fr.WriteWindowUpdate(0, window)
	if err := c.flush(); err != nil {
		return nil, err
	}
	go c.read()
	time.Sleep(50 * time.Millisecond) // for SETTINGS and WINDOW_UPDATE
	return c, nil
}

func prefixed(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

func headerBlock(authority string) []byte {
	return block([2]string{":method", "POST"}, [2]string{":scheme", "http"}, [2]string{":path", method}, [2]string{":authority", authority},
		[2]string{"content-type", "application/grpc"}, [2]string{"te", "trailers"}, [2]string{"user-agent", "hop"},
		[2]string{"grpc-accept-encoding", "zstd,minlz,s2,snappy,lz4,gzip"}, [2]string{"grpc-timeout", "10S"})
}

// flush writes the contents of buf. c.mu must be held, unless the connection is not shared yet.
func (c *conn) flush() error {
	_, err := c.net.Write(c.buf.Bytes())
	c.buf.Reset()
	return err
}

// call sends a request. It returns false if too many calls are pending or the connection has failed.
func (c *conn) call() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.room < int64(len(c.message)) && c.err == nil {
		c.changed.Wait()
	}
	if c.err != nil || len(c.sent) >= maxPending {
		return false
	}
	c.room -= int64(len(c.message))
	id := c.next
	c.next += 2
	_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.head, EndHeaders: true})
	for rest := c.message; len(rest) > 0; {
		n := min(len(rest), c.frame)
		_ = c.fr.WriteData(id, n == len(rest), rest[:n])
		rest = rest[n:]
	}
	c.sent[id] = time.Now()
	if err := c.flush(); err != nil {
		c.end(err)
	}
	return true
}

// end fails the pending calls. c.mu must be held.
func (c *conn) end(err error) {
	if c.err != nil {
		return
	}
	if c.closed {
		err = net.ErrClosed
	}
	c.err = err
	for _, sent := range c.sent {
		c.done(sent, false)
	}
	clear(c.sent)
	c.changed.Broadcast()
}

// wait waits up to most for all calls to be answered, and closes the connection.
func (c *conn) wait(most time.Duration) {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		left := len(c.sent)
		c.mu.Unlock()
		if left == 0 {
			break
		}
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	_ = c.net.Close()
}

func (c *conn) read() {
	fr := http2.NewFramer(nil, bufio.NewReaderSize(c.net, readAhead))
	fr.SetReuseFrames()
	fr.SetMaxReadFrameSize(1 << 20)
	status := ""
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			status = f.Value
		}
	})
	taken := 0 // bytes of the window consumed
	for {
		f, err := fr.ReadFrame()
		if err == nil {
			switch f := f.(type) {
			case *http2.HeadersFrame:
				status = ""
				_, err = dec.Write(f.HeaderBlockFragment())
				if f.StreamEnded() {
					c.answered(f.StreamID, status == "0")
				}
			case *http2.DataFrame:
				taken += int(f.Length)
			case *http2.RSTStreamFrame:
				c.answered(f.StreamID, false)
			case *http2.GoAwayFrame:
				err = fmt.Errorf("GOAWAY %v", f.ErrCode)
			default:
				err = c.control(f)
			}
		}
		if err == nil && taken > window/2 {
			err = c.reply(func(w *http2.Framer) error { return w.WriteWindowUpdate(0, uint32(taken)) })
			taken = 0
		}
		if err != nil {
			c.mu.Lock()
			c.end(err)
			c.mu.Unlock()
			return
		}
	}
}

// control handles connection-level frames.
func (c *conn) control(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if v, ok := f.Value(http2.SettingMaxFrameSize); ok {
			c.mu.Lock()
			c.frame = int(v)
			c.mu.Unlock()
		}
		return c.reply(func(w *http2.Framer) error { return w.WriteSettingsAck() })
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return c.reply(func(w *http2.Framer) error { return w.WritePing(true, f.Data) })
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.mu.Lock()
			c.room += int64(f.Increment)
			c.changed.Broadcast()
			c.mu.Unlock()
		}
	}
	return nil
}

func (c *conn) reply(write func(*http2.Framer) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = write(c.fr)
	return c.flush()
}

func (c *conn) answered(id uint32, ok bool) {
	c.mu.Lock()
	sent, known := c.sent[id]
	delete(c.sent, id)
	c.mu.Unlock()
	if known {
		c.done(sent, ok)
	}
}
