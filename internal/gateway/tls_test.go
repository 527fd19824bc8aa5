package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/test/testenv"
)

// testCA signs certificates for 127.0.0.1.
type testCA struct{ *testenv.Authority }

func newTestCA(t *testing.T) testCA {
	t.Helper()
	return testCA{testenv.NewAuthority(t)}
}

// issue writes NAME.pem and NAME.key and returns the certificate's serial.
func (ca testCA) issue(t *testing.T, name string) (files endpoint.TLSFiles, serial int64) {
	t.Helper()
	i := ca.Issue(t, name)
	return endpoint.TLSFiles{Cert: i.Cert, Key: i.Key}, i.Serial
}

func (ca testCA) serverConfig(t *testing.T) *tls.Config {
	t.Helper()
	files, _ := ca.issue(t, "server")
	return mustConfig(t)(files.ServerConfig())
}

func (ca testCA) clientConfig(t *testing.T) *tls.Config {
	t.Helper()
	return mustConfig(t)(endpoint.TLSFiles{CA: ca.File}.ClientConfig())
}

func mustConfig(t *testing.T) func(*tls.Config, error) *tls.Config {
	return func(cfg *tls.Config, err error) *tls.Config {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
}

func newTLSListener(l net.Listener, cfg *tls.Config) net.Listener { return tls.NewListener(l, cfg) }

// dialTLS connects and exchanges one line, to detect a server that refuses the client's certificate: TLS 1.3
// reports that only after the handshake.
func dialTLS(t *testing.T, addr string, cfg *tls.Config) (*tls.ConnectionState, error) {
	t.Helper()
	c, err := endpoint.Upstream{Network: "tcp", Address: addr, Host: "127.0.0.1", TLS: cfg}.Dial(t.Context())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, make([]byte, 6)); err != nil {
		return nil, err
	}
	state := c.(*tls.Conn).ConnectionState()
	return &state, nil
}

func TestTLSClientCertificates(t *testing.T) {
	ca, stranger := newTestCA(t), newTestCA(t)
	files, _ := ca.issue(t, "server")
	files.ClientCA = ca.File
	h := startServer(t, &Server{TLS: mustConfig(t)(files.ServerConfig())})

	good, _ := ca.issue(t, "client")
	good.CA = ca.File
	if _, err := dialTLS(t, h.addr, mustConfig(t)(good.ClientConfig())); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	bad, _ := stranger.issue(t, "client")
	bad.CA = ca.File
	if _, err := dialTLS(t, h.addr, mustConfig(t)(bad.ClientConfig())); err == nil {
		t.Error("a stranger's certificate was taken")
	}
	if _, err := dialTLS(t, h.addr, ca.clientConfig(t)); err == nil {
		t.Error("no certificate was asked for")
	}
	if _, err := dialTLS(t, h.addr, stranger.clientConfig(t)); !errors.Is(err, endpoint.ErrUnreachable) {
		t.Errorf("an untrusted server: %v", err)
	}
	testenv.Eventually(t, "handshake errors", func() bool { return h.Stats.Snapshot().Errors["tls_handshake"] == 3 })
}

func TestTLSOldVersionsAreRefused(t *testing.T) {
	ca := newTestCA(t)
	h := startServer(t, &Server{TLS: ca.serverConfig(t)})
	cfg := ca.clientConfig(t)
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := dialTLS(t, h.addr, cfg); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, err := dialTLS(t, h.addr, cfg); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
}

func TestTLSReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newTestCA(t)
		files, first := ca.issue(t, "server")
		l := testenv.NewPipeListener()
		startServerOn(t, &Server{TLS: mustConfig(t)(files.ServerConfig())}, l)
		cfg := ca.clientConfig(t)
		cfg.ServerName = "127.0.0.1"
		dial := func() (*testClient, int64) {
			c, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			tc := tls.Client(c, cfg)
			if err := tc.Handshake(); err != nil {
				t.Fatal(err)
			}
			return newTestClient(t, tc), tc.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
		}
		open, serial := dial()
		if serial != first {
			t.Fatalf("serial %d, want %d", serial, first)
		}
		open.echo("before")
		_, second := ca.issue(t, "server")
		time.Sleep(time.Second)
		if _, serial := dial(); serial != second {
			t.Errorf("serial %d, want %d", serial, second)
		}
		open.echo("after")
	})
}

func mustDialTLS(t *testing.T, addr string, cfg *tls.Config) net.Conn {
	t.Helper()
	c, err := endpoint.Upstream{Network: "tcp", Address: addr, Host: "127.0.0.1", TLS: cfg}.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTLSHandshakeTimeout(t *testing.T) {
	ca := newTestCA(t)
	h := startServer(t, &Server{TLS: ca.serverConfig(t), HandshakeTimeout: time.Millisecond})
	silent := h.dial(t)
	silent.expectEnd()
	testenv.Eventually(t, "an error", func() bool { return h.Stats.Snapshot().Errors["tls_handshake"] == 1 })
}

func TestShutdownDuringHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testenv.NewPipeListener()
		h := startServerOn(t, &Server{TLS: newTestCA(t).serverConfig(t), HandshakeTimeout: time.Hour}, l)
		c, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		silent := newTestClient(t, c)
		synctest.Wait()
		if n := h.Stats.Snapshot().Connections.Open; n != 1 {
			t.Fatalf("%d connections", n)
		}
		if err := h.Shutdown(shutdownContext(t)); err != nil {
			t.Fatal(err)
		}
		silent.expectEnd()
	})
}
