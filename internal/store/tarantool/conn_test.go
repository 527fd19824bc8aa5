package tarantool

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

// greetingOf returns the greeting of a server with that ID.
func greetingOf(id string) string {
	return fmt.Sprintf("%-63s\n%-63s\n", "Tarantool 2.6.0 (Binary) "+id, "c2FsdHNhbHRzYWx0c2FsdHNhbHRzYWx0c2FsdHNhbHQ=")
}

// answerPings serves a client of a server that answers PING, and other requests with an error.
func answerPings(c net.Conn, id string) {
	defer c.Close()
	if _, err := io.WriteString(c, greetingOf(id)); err != nil {
		return
	}
	r, head := bufio.NewReader(c), make([]byte, 5)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(r, b); err != nil {
			return
		}
		var h wire.Header
		if h.Parse(b) != nil {
			return
		}
		answer := wire.AppendError(nil, h.Sync, 7, 48, "unknown request type") // ER_UNKNOWN_REQUEST_TYPE
		if h.Type == wire.Ping {
			answer = wire.AppendGateway(nil, h.Sync, 7, id, "")
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

func TestInstanceOf(t *testing.T) {
	for greeting, want := range map[string]string{
		greetingOf("7170b4aa-c72f"): "7170b4aa-c72f", "Tarantool 1.6 (Binary)\nsalt) x\n": "", "": "",
	} {
		if got := instanceOf(greeting); got != want {
			t.Errorf("%q: %q", greeting, got)
		}
	}
}

// The connection moves when clients are greeted by another server, and only then. It calls Moved for each server
// that it had not expected.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leadsTo, dials, moved := "a", 0, 0
		c := NewConn(Options{Moved: func() { moved++ }, Dial: func(context.Context) (net.Conn, error) {
			dials++
			client, server := net.Pipe()
			go answerPings(server, leadsTo)
			return client, nil
		}})
		defer c.Close()
		c.Follow(greetingOf("b")) // before the first connection
		check := func(what string, wantDials, wantMoved int) {
			t.Helper()
			if err := c.Ping(t.Context()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if dials != wantDials || moved != wantMoved {
				t.Errorf("%s: connected %d times, want %d; moved %d times, want %d", what, dials, wantDials, moved, wantMoved)
			}
		}
		check("first", 1, 0)
		c.Follow(greetingOf("a"))
		c.Follow("not a greeting")
		check("clients get to the same server", 1, 0)
		c.Drop()
		check("it ended, and the server is the same", 2, 0)
		leadsTo = "b"
		check("the address leads elsewhere, and no client was there", 2, 0)
		c.Follow(greetingOf("b"))
		if moved != 1 {
			t.Error("it did not tell at once")
		}
		check("a client was there", 3, 1)
		leadsTo = "a"
		c.Follow(greetingOf("a"))
		check("again, at once", 3, 1)
		time.Sleep(followPause)
		c.Follow(greetingOf("a"))
		check("again, after a while", 4, 2)
		leadsTo = "c"
		c.Drop()
		check("it ended, and the server is another", 5, 3)
	})
}

// After a move values name no dictionary until a check has found it in the new server, or has restored it there.
func TestDictsMove(t *testing.T) {
	var addr string
	c := NewConn(Options{Timeout: time.Minute, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}})
	t.Cleanup(c.Close)
	var old, fresh *testenv.TarantoolServer
	for _, s := range []**testenv.TarantoolServer{&old, &fresh} {
		*s = testenv.Tarantool(t, "")
		install(t, mustConnect(t, (*s).Addr, "", ""), InstallOptions{})
	}
	addr = old.Addr
	d, x := NewDicts(c, nil), testDict(t, "a")
	c.o.Moved = d.Kick
	if err := d.Publish(t.Context(), x); err != nil || !d.Ready(x.Number()) {
		t.Fatalf("ready %t, %v", d.Ready(x.Number()), err)
	}
	addr = fresh.Addr
	l, err := mustConnect(t, fresh.Addr, "", "").get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Follow(greetingOf(l.instance))
	if d.Ready(x.Number()) {
		t.Error("it is ready in a server that was not asked")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go d.Run(ctx)
	testenv.Eventually(t, "it is stored in the new server", func() bool { return d.Ready(x.Number()) })
	if _, err := NewDicts(mustConnect(t, fresh.Addr, "", ""), nil).Dictionary(x.Number()); err != nil {
		t.Errorf("in the new server: %v", err)
	}
}

// A check that was begun in the old server does not count.
func TestDictsMoveDuringACheck(t *testing.T) {
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	d, x := NewDicts(c, nil), testDict(t, "a")
	if err := d.Publish(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	c.o.Moved = d.Kick
	c.Drop()
	c.instance = "another" // the connection that the check makes leads elsewhere
	if err := d.Recheck(t.Context()); !errors.Is(err, errServerChanged) || d.Ready(x.Number()) {
		t.Errorf("ready %t, %v", d.Ready(x.Number()), err)
	}
	if err := d.Recheck(t.Context()); err != nil || !d.Ready(x.Number()) {
		t.Errorf("ready %t, %v", d.Ready(x.Number()), err)
	}
	if _, err := d.Dictionary(7); !errors.Is(err, envelope.ErrDictMissing) {
		t.Error(err)
	}
}
