package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
)

// sideServer is a server for second connections. It has an answer for some commands and refuses all others.
type sideServer struct {
	answers map[string]string

	mu    sync.Mutex
	dials int
	heard []string
}

// withSideServer makes the user's second connections go to a sideServer.
func (p *sessionParts) withSideServer(answers map[string]string) *sideServer {
	b := &sideServer{answers: answers}
	p.user.sideConn.dialer.dialFunc = func(context.Context) (net.Conn, error) {
		near, far := socketPair(p.t)
		b.mu.Lock()
		b.dials++
		b.mu.Unlock()
		go b.serve(far)
		return near, nil
	}
	p.t.Cleanup(p.user.sideConn.close)
	return b
}

func (b *sideServer) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		var n, size int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		var words []string
		for range n {
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			word := make([]byte, size+2)
			for have := 0; have < len(word); {
				k, err := in.Read(word[have:])
				if err != nil {
					return
				}
				have += k
			}
			words = append(words, string(word[:size]))
		}
		name := strings.ToUpper(words[0])
		answer, known := b.answers[name]
		if !known {
			answer = "-ERR unknown command\r\n"
		} else {
			b.mu.Lock()
			b.heard = append(b.heard, strings.Join(words, " "))
			b.mu.Unlock()
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			return
		}
	}
}

func (b *sideServer) was(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.heard, want) {
		t.Errorf("asked beside %q, want %q", b.heard, want)
	}
	b.heard = nil
}

// holdingSealed returns a server's answers for a key that holds an envelope.
func holdingSealed(env string) map[string]string {
	return map[string]string{"GETRANGE": bulk(env[:min(len(env), envelope.MaxHeaderLen)]), "STRLEN": fmt.Sprintf(":%d\r\n", len(env)), "GET": bulk(env)}
}

func TestSideConnFollowsTheDatabase(t *testing.T) {
	p := newParts(t)
	x := &p.user.sideConn
	b := p.withSideServer(map[string]string{"PING": "+PONG\r\n", "SELECT": "+OK\r\n"})
	ping := func() {
		t.Helper()
		if err := x.client().Ping(ctx).Err(); err != nil {
			t.Error(err)
		}
	}
	ping()
	ping()
	b.was(t, "ping", "ping")
	space := "3"
	p.upstream.state.selected.Store(&space)
	ping()
	b.was(t, "select 3", "ping")
	if b.dials != 2 {
		t.Errorf("%d connections for two databases", b.dials)
	}
	x.close()
	if err := x.client().Ping(ctx).Err(); !errors.Is(err, goredis.ErrClosed) {
		t.Errorf("behind the end of the session: %v", err)
	}
}

// Rights are asked for without running the command, in a transaction that is discarded.
func TestSideConnAsksWithoutRunning(t *testing.T) {
	p := newParts(t)
	const refusal = "NOPERM no permissions to run the 'append' command"
	answers := map[string]string{"MULTI": "+OK\r\n", "APPEND": "-" + refusal + "\r\n", "DISCARD": "+OK\r\n"}
	b := p.withSideServer(answers)
	request := requestOf("APPEND", "k", "x").args
	if got := p.user.sideConn.permissionError(request); got != refusal {
		t.Errorf("%q", got)
	}
	b.was(t, "MULTI", "APPEND k x", "DISCARD")

	p.user.sideConn.invalidate()
	b = p.withSideServer(map[string]string{"MULTI": "-NOPERM no MULTI\r\n", "APPEND": answers["APPEND"], "DISCARD": "+OK\r\n"})
	if got := p.user.sideConn.permissionError(request); got != "" {
		t.Errorf("that MULTI is forbidden says nothing of APPEND: %q", got)
	}
	b.was(t, "MULTI")
}

func TestSideConnRemembersCommands(t *testing.T) {
	p := newParts(t)
	b := p.withSideServer(map[string]string{"COMMAND": "*1\r\n*-1\r\n"})
	row := &command{name: "newer"}
	for range 2 {
		if p.user.sideConn.supports(row) {
			t.Error("the server has it, it says")
		}
	}
	b.was(t, "COMMAND INFO newer")
}
