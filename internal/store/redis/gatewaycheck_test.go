package redis

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// spoken imitates servers, by address. Each answers HELLO and PING, and answers the gateway check with the text in
// what; if that is "", it closes the connection.
type spoken struct {
	mu     sync.Mutex
	what   map[string]string
	hello  map[string]string // replaces the answer to HELLO
	asked  map[string]int
	dialed map[string]int
}

func (s *spoken) dial(_ context.Context, _, address string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.what[address]; !there {
		return nil, errors.New("no server is there")
	}
	s.dialed[address]++
	client, server := net.Pipe()
	go s.serve(address, server)
	return client, nil
}

func (s *spoken) serve(address string, c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		words, err := readRequest(r)
		if err != nil {
			return
		}
		s.mu.Lock()
		answer := "-ERR unknown command\r\n"
		switch strings.ToLower(words[0]) {
		case "hello":
			if refusal := s.hello[address]; refusal != "" {
				answer = refusal
			}
		case "ping":
			answer = "+PONG\r\n"
			if s.hello[address] != "" {
				answer = s.hello[address]
			}
		case resp.GatewayCommand:
			s.asked[address]++
			answer = s.what[address]
		}
		s.mu.Unlock()
		if answer == "" {
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func readRequest(r *bufio.Reader) (words []string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, _ := resp.ParseInt([]byte(line[1 : len(line)-2]))
	for range n {
		if _, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		words = append(words, strings.TrimSpace(line))
	}
	return words, nil
}

// Each address is asked once, on a separate connection and before anything else is sent there. An address
// that closes that connection, as some proxies do, may still be used. One that may be a gateway without room
// or without a server is asked again.
func TestAskGateways(t *testing.T) {
	const unknown, cinch = "-ERR unknown command 'cinch.gateway'\r\n", "-ERR cinch: upstream is unreachable\r\n"
	is := string(resp.AppendGateway(nil, "cache", "redis://db"))
	s := &spoken{
		what:  map[string]string{"plain:1": unknown, "other:1": "-ERR unsupported command\r\n", "proxy:1": "", "gateway:1": is, "lists:1": "*1\r\n$1\r\nx\r\n", "down:1": ""},
		hello: map[string]string{"down:1": cinch}, asked: map[string]int{}, dialed: map[string]int{},
	}
	o := WithGatewayCheck(goredis.Options{Dialer: s.dial, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true},
		func(address string, g store.Gateway) error { return g.Refusal(address) })
	use := func(address string) error {
		o := o
		o.Addr = address
		c := goredis.NewClient(&o)
		defer c.Close()
		return c.Ping(t.Context()).Err()
	}
	for address, asked := range map[string]int{"plain:1": 1, "other:1": 1, "lists:1": 1, "proxy:1": 3} {
		for range 3 {
			if err := use(address); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
		if s.asked[address] != asked {
			t.Errorf("%s was asked %d times", address, s.asked[address])
		}
	}
	for range 2 {
		err := use("gateway:1")
		var e *store.HintedError
		if !errors.Is(err, store.ErrGateway) || !errors.As(err, &e) || !errors.Is(err, store.ErrConfig) || e.Server != "gateway:1" || !strings.Contains(e.Help, "redis://db") || Unavailable(err) {
			t.Errorf("%v", err)
		}
	}
	if s.dialed["gateway:1"] != s.asked["gateway:1"] {
		t.Errorf("%d connections to the gateway, for %d questions", s.dialed["gateway:1"], s.asked["gateway:1"])
	}
	if err := use("down:1"); err == nil || errors.Is(err, store.ErrGateway) {
		t.Errorf("down: %v", err)
	}
	s.mu.Lock()
	s.hello["down:1"], s.what["down:1"] = "", is
	s.mu.Unlock()
	if err := use("down:1"); !errors.Is(err, store.ErrGateway) {
		t.Errorf("a gateway whose server is back: %v", err)
	}
	if err := use("none:1"); err == nil || !strings.Contains(err.Error(), "no server is there") {
		t.Errorf("%v", err)
	}
}
