package server

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// answering is a server on loopback that replies to each connection's first command.
func answering(t *testing.T, line string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = c.Write([]byte(line + "\r\n"))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// startBefore calls refuseOpenListeners for a gateway with these settings, as a start does before it listens.
func startBefore(t *testing.T, listen, upstream, more string) (logged string, err error) {
	t.Helper()
	cfg, err := config.Parse("cinch.yaml", fmt.Appendf(nil, "gateways:\n- {name: g, protocol: redis, listen: %q, upstream: %q, rules: [{setting: lz4}]%s}\n", listen, upstream, more), nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &testenv.Log{}
	up, err := cfg.UpstreamOf(&cfg.Gateways[0], log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	err = refuseOpenListeners(cfg, []*running{{name: "g", upstream: up, log: log.Logger()}})
	return log.String(), err
}

// A gateway must not open a server on loopback without authentication to the network.
func TestOpenListenersAreRefused(t *testing.T) {
	open, closed := answering(t, "+PONG"), answering(t, "-NOAUTH Authentication required.")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, c := range []struct {
		listen, upstream, more string
		refused                bool
		log                    string // a part of it; "": the log is empty
	}{
		{"0.0.0.0:6380", "redis://" + open, "", true, ""},
		{":6380", "redis://" + open, "", true, ""},
		{"10.1.2.3:6380", "redis://" + open, "", true, ""},
		{":6380", "redis+cluster://" + open, "", true, ""},
		{":6380", "redis://" + open, ", allow_open_listener: true", false, "allow_open_listener"},
		{":6380", "redis://" + open, ", tls: {cert: c, key: k, client_ca: ca}", false, ""},
		{":6380", "redis://" + open, ", tls: {cert: c, key: k}", true, ""},
		{":6380", "redis://" + closed, "", false, ""},
		{"127.0.0.1:6380", "redis://" + open, "", false, ""},
		{"unix:/run/cinch.sock", "redis://" + open, "", false, ""},
		{":6380", "redis://" + gone.Addr().String(), "", false, "it is unknown whether"},
		{":6380", "redis://cache.internal:6379", "", false, ""},
	} {
		log, err := startBefore(t, c.listen, c.upstream, c.more)
		if errors.Is(err, config.ErrInvalid) != c.refused || !c.refused && err != nil {
			t.Errorf("%s before %s%s: %v", c.listen, c.upstream, c.more, err)
		}
		if c.refused && !strings.Contains(err.Error(), "allow_open_listener") {
			t.Errorf("the error does not say how to allow it: %v", err)
		}
		if c.log == "" && log != "" || !strings.Contains(log, c.log) {
			t.Errorf("%s before %s%s: the log is %q", c.listen, c.upstream, c.more, log)
		}
	}
}
