//go:build linux

package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"runtime/debug"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// method is the path that clients call.
const method = "/bench.Hop/Call"

// serve answers each message with itself until standard input ends. It implements only this call, and only
// the parts of HTTP/2 that the call needs.
func serve(addr string) error {
	debug.SetGCPercent(rareGC)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			_ = newEcho(c).run()
		}()
	}
}

// echo is a connection of the server. A single goroutine reads the frames that have arrived, and then writes
// the answers together.
type echo struct {
	net    net.Conn
	in     *bufio.Reader
	read   *http2.Framer
	buf    bytes.Buffer
	write  *http2.Framer // writes to buf
	head   []byte        // header block of each reply, and
	status []byte        // of its trailers; both use no dynamic table, so they are constant
	calls  map[uint32]*call
	ready  []*call // waiting to be answered as windows allow
	room   int64   // bytes that may be sent
	stream int64   // on a new stream
	frame  int     // largest frame payload
	taken  uint32  // bytes of the receive window consumed
}

// call is one unfinished call.
type call struct {
	id      uint32
	message []byte // once it is answered: the part not yet sent
	room    int64
	begun   bool
}

func newEcho(c net.Conn) *echo {
	e := &echo{
		net: c, in: bufio.NewReaderSize(c, readAhead), calls: map[uint32]*call{}, room: 65535, stream: 65535, frame: 16 << 10,
		head:   block([2]string{":status", "200"}, [2]string{"content-type", "application/grpc"}),
		status: block([2]string{"grpc-status", "0"}),
	}
	e.read, e.write = http2.NewFramer(nil, e.in), http2.NewFramer(&e.buf, nil)
	e.read.SetReuseFrames()
	return e
}

// block encodes a header block that uses no dynamic table.
func block(fields ...[2]string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return b.Bytes()
}

func (e *echo) run() error {
	if _, err := e.in.Discard(len(http2.ClientPreface)); err != nil {
		return err
	}
	_ = e.write.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamMost}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1000})
	_ = e.write.WriteWindowUpdate(0, window)
	for {
		f, err := e.read.ReadFrame()
		if err != nil {
			return err
		}
		e.take(f)
		if e.in.Buffered() > 0 {
			continue
		}
		e.answer()
		if _, err := e.net.Write(e.buf.Bytes()); err != nil {
			return err
		}
		e.buf.Reset()
	}
}

// take handles a frame. It ignores the content of header blocks.
func (e *echo) take(f http2.Frame) {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		if _, ok := e.calls[f.StreamID]; !ok {
			e.calls[f.StreamID] = &call{id: f.StreamID, room: e.stream}
		}
		e.end(f.StreamID, f.StreamEnded())
	case *http2.DataFrame:
		if c := e.calls[f.StreamID]; c != nil {
			c.message = append(c.message, f.Data()...)
		}
		e.took(f.Length)
		e.end(f.StreamID, f.StreamEnded())
	case *http2.RSTStreamFrame:
		delete(e.calls, f.StreamID)
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			e.room += int64(f.Increment)
		} else if c := e.calls[f.StreamID]; c != nil {
			c.room += int64(f.Increment)
		}
	case *http2.SettingsFrame:
		e.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = e.write.WritePing(true, f.Data)
		}
	}
}

func (e *echo) settings(f *http2.SettingsFrame) {
	if f.IsAck() {
		return
	}
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		for _, c := range e.calls {
			c.room += int64(v) - e.stream
		}
		e.stream = int64(v)
	}
	if v, ok := f.Value(http2.SettingMaxFrameSize); ok {
		e.frame = int(v)
	}
	_ = e.write.WriteSettingsAck()
}

// took returns consumed bytes to the connection's window. A stream's window is longer than any message.
func (e *echo) took(n uint32) {
	if e.taken += n; e.taken > window/2 {
		_ = e.write.WriteWindowUpdate(0, e.taken)
		e.taken = 0
	}
}

func (e *echo) end(id uint32, ended bool) {
	if c := e.calls[id]; ended && c != nil {
		e.ready = append(e.ready, c)
	}
}

// answer writes as much of the ready calls' answers as windows allow.
func (e *echo) answer() {
	left := e.ready[:0]
	for _, c := range e.ready {
		switch {
		case e.calls[c.id] != c: // reset
		case e.send(c):
			_ = e.write.WriteHeaders(http2.HeadersFrameParam{StreamID: c.id, BlockFragment: e.status, EndHeaders: true, EndStream: true})
			delete(e.calls, c.id)
		default:
			left = append(left, c)
		}
	}
	clear(e.ready[len(left):])
	e.ready = left
}

// send reports whether the whole message has been written.
func (e *echo) send(c *call) bool {
	if !c.begun {
		_ = e.write.WriteHeaders(http2.HeadersFrameParam{StreamID: c.id, BlockFragment: e.head, EndHeaders: true})
		c.begun = true
	}
	for len(c.message) > 0 {
		n := min(int64(len(c.message)), int64(e.frame), c.room, e.room)
		if n <= 0 {
			return false
		}
		_ = e.write.WriteData(c.id, false, c.message[:n])
		c.message, c.room, e.room = c.message[n:], c.room-n, e.room-n
	}
	return true
}
