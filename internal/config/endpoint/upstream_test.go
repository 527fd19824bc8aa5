package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestParseUpstream(t *testing.T) {
	for raw, want := range map[string]Upstream{
		"host":                        {Network: "tcp", Address: "host:6379", Host: "host"},
		"host:7000":                   {Network: "tcp", Address: "host:7000", Host: "host"},
		"[::1]:7000":                  {Network: "tcp", Address: "[::1]:7000", Host: "::1"},
		"redis://[::1]":               {Network: "tcp", Address: "[::1]:6379", Host: "::1"},
		"redis://127.0.0.1:6379":      {Network: "tcp", Address: "127.0.0.1:6379", Host: "127.0.0.1"},
		"redis://u:p%40ss@h/3":        {Network: "tcp", Address: "h:6379", Host: "h", User: "u", Password: "p@ss", Database: "3"},
		"redis://:secret@h:1/":        {Network: "tcp", Address: "h:1", Host: "h", Password: "secret"},
		"redis://h?db=2":              {Network: "tcp", Address: "h:6379", Host: "h", Database: "2"},
		"unix:///run/r.sock":          {Network: "unix", Address: "/run/r.sock"},
		"unix://u:p@/run/a@b.sock":    {Network: "unix", Address: "/run/a@b.sock", User: "u", Password: "p"},
		"unix://u:p@/run/r.sock?db=1": {Network: "unix", Address: "/run/r.sock", User: "u", Password: "p", Database: "1"},
		"tcp://h":                     {Network: "tcp", Address: "h:6379", Host: "h"},
	} {
		got, err := ParseUpstream(raw, "6379")
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", raw, got, err, want)
		}
	}
	for _, raw := range []string{"rediss://h:1", "tls://h:1"} {
		got, err := ParseUpstream(raw, "6379")
		if err != nil || got.TLS == nil || got.Address != "h:1" || got.String() != "tls://h:1" {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

func TestParseUpstreamErrorsKeepPasswords(t *testing.T) {
	for _, raw := range []string{
		"", "redis://", "redis:///0", "ftp://u:hunter2@h", "redis://u:hunter2/x@h", "redis://u:hun%zzter2@h",
		"redis://u:hunter2@h:port", "unix://run/r.sock", "unix://", "redis://u:hunter2@h?timeout=1", "redis://u:hunter2@h?db=1&db=2",
		"redis://u:hunter2@[::1", "redis://u:hunter2\x01@h",
		"redis://u:1?hunter2@h", "redis://u:1?db=hunter2@h", "redis://u:1/hunter2@h", "redis://u:1#hunter2@h", "redis://hunter2?@h",
		"redis://u:x@1?hunter2@h", "u:1?hunter2@h:6379", "unix://u:1?hunter2@/run/r.sock",
	} {
		_, err := ParseUpstream(raw, "6379")
		if !errors.Is(err, ErrUpstreamURL) {
			t.Errorf("%q: %v", raw, err)
		} else if strings.Contains(err.Error(), "hun") {
			t.Errorf("%q: the error shows the password: %v", raw, err)
		}
	}
	if _, err := ParseUpstream("host", ""); !errors.Is(err, ErrUpstreamURL) {
		t.Errorf("no port: %v", err)
	}
}

func TestUpstreamStringShowsNoCredentials(t *testing.T) {
	for _, raw := range []string{"redis://u:hunter2@h", "rediss://u:hunter2@h", "unix://u:hunter2@/s"} {
		up, err := ParseUpstream(raw, "6379")
		if err != nil {
			t.Fatal(err)
		}
		if s := up.String(); s == "" || strings.Contains(s, "u:") || strings.Contains(s, "hunter2") {
			t.Errorf("%s prints as %s", raw, s)
		}
	}
}

func TestDialErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := l.Addr().String() // the backlog accepts connections, nothing is ever sent
	defer l.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	dial := func(ctx context.Context, up Upstream) error {
		c, err := up.Dial(ctx)
		if err == nil {
			c.Close()
		}
		return err
	}
	up := Upstream{Network: "tcp", Address: closed.Addr().String()}
	if err := dial(t.Context(), up); !errors.Is(err, ErrUnreachable) {
		t.Errorf("no listener: %v", err)
	}
	up = Upstream{Network: "tcp", Address: silent, Host: "127.0.0.1", TLS: &tls.Config{RootCAs: testenv.NewAuthority(t).Pool}, Timeout: time.Millisecond}
	err = dial(t.Context(), up) // on a busy machine the time is up before the connection is
	if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("no handshake: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dial(ctx, Upstream{Network: "tcp", Address: silent}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("ended context: %v", err)
	}
	var ne net.Error
	if errors.As(ErrUnreachable, &ne) {
		t.Error("the sentinel must not look like a network error")
	}
}

// WithConn ends at ctx's deadline and closes its connection.
func TestWithConn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	up := Upstream{Network: "tcp", Address: l.Addr().String()}
	within, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = up.WithConn(within, func(c net.Conn) error {
		_, err := c.Read(make([]byte, 1)) // no answer comes
		return err
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without an answer: %v", err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if b, err := io.ReadAll(far); err != nil || len(b) > 0 {
		t.Errorf("the connection is open: %q, %v", b, err)
	}
	none := errors.New("no listener")
	err = WithConn(t.Context(), func(context.Context) (net.Conn, error) { return nil, none }, func(net.Conn) error { panic("no connection") })
	if !errors.Is(err, none) {
		t.Errorf("without a server: %v", err)
	}
}

func TestOnLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "unix:/run/s": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "db:1": false,
	} {
		if OnLoopback(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}
