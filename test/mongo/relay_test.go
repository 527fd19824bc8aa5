package mongo

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
)

// relay stands between a gateway and mongod, and knows by which connections it reaches
// mongod. A connection that mongod took and that is none of them went past the gateway.
type relay struct {
	addr string

	mu     sync.Mutex
	server string
	open   map[net.Conn]bool
	ports  map[string]bool // where its connections to mongod come from
}

func startRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{addr: l.Addr().String(), server: server, open: map[net.Conn]bool{}, ports: map[string]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.carry(c)
		}
	}()
	return r
}

// point cuts all connections, and leads those that come to another server.
func (r *relay) point(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = server
	for c := range r.open {
		_ = c.Close()
	}
}

// dial connects to the server, on behalf of a client that point may cut off.
func (r *relay) dial(c net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := net.Dial("tcp", r.server)
	if err != nil {
		return nil, err
	}
	r.ports[s.LocalAddr().String()] = true
	r.open[c] = true
	return s, nil
}

func (r *relay) carry(c net.Conn) {
	defer c.Close()
	s, err := r.dial(c)
	if err != nil {
		return
	}
	defer func() {
		_ = s.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, c)
	}()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{s, c}, {c, s}} {
		both.Go(func() {
			if _, err := io.Copy(pair[0], pair[1]); err != nil {
				_ = pair[1].Close()
			}
			_ = pair[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

// past returns how many connections of mongod's log, from a place in it, came through the
// relay, and of those that neither did nor are mongod's own what the log says.
func (r *relay) past(t *testing.T, log string, from int64) (through int, others map[string]string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	others = map[string]string{}
	for raw := range bytes.Lines(text[from:]) {
		var line struct {
			Msg  string
			Attr struct {
				Remote string
				Doc    struct{ Driver struct{ Name string } }
			}
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		at := line.Attr.Remote
		switch {
		case line.Msg == "Connection accepted" && r.ports[at]:
			through++
		case line.Msg == "Connection accepted":
			others[at] = string(raw)
		case line.Msg == "client metadata" && others[at] != "":
			others[at] += string(raw)
			if name := line.Attr.Doc.Driver.Name; strings.HasPrefix(name, "NetworkInterfaceTL-") || name == "MongoDB Internal Client" {
				delete(others, at)
			}
		}
	}
	return through, others
}
