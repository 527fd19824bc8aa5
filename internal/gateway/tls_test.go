package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// testCA signs certificates for 127.0.0.1.
type testCA struct{ *testenv.Authority }

func newTestCA(t *testing.T) testCA {
	t.Helper()
	return testCA{testenv.NewAuthority(t)}
}

// issue writes NAME.pem and NAME.key and returns the certificate's serial.
func (ca testCA) issue(t *testing.T, name string) (files TLSFiles, serial int64) {
	t.Helper()
	i := ca.Issue(t, name)
	return TLSFiles{Cert: i.Cert, Key: i.Key}, i.Serial
}

func (ca testCA) serverConfig(t *testing.T) *tls.Config {
	t.Helper()
	files, _ := ca.issue(t, "server")
	return mustConfig(t)(files.ServerConfig())
}

func (ca testCA) clientConfig(t *testing.T) *tls.Config {
	t.Helper()
	return mustConfig(t)(TLSFiles{CA: ca.File}.ClientConfig())
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
	c, err := Upstream{Network: "tcp", Address: addr, Host: "127.0.0.1", TLS: cfg}.Dial(t.Context())
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
	if _, err := dialTLS(t, h.addr, stranger.clientConfig(t)); !errors.Is(err, ErrUnreachable) {
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
		time.Sleep(certCheckInterval)
		if _, serial := dial(); serial != second {
			t.Errorf("serial %d, want %d", serial, second)
		}
		open.echo("after")
	})
}

func mustDialTLS(t *testing.T, addr string, cfg *tls.Config) net.Conn {
	t.Helper()
	c, err := Upstream{Network: "tcp", Address: addr, Host: "127.0.0.1", TLS: cfg}.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReloaderKeepsTheLastGoodState(t *testing.T) {
	ca := newTestCA(t)
	files, first := ca.issue(t, "server")
	r := newReloader(nil, files.loadClient, files.Cert, files.Key)
	r.every = 0
	if _, err := r.loadFirst(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Cert, []byte("half a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.current().Leaf.SerialNumber.Int64(); got != first {
		t.Errorf("serial %d, want %d", got, first)
	}
	_, second := ca.issue(t, "server")
	if got := r.current().Leaf.SerialNumber.Int64(); got != second {
		t.Errorf("serial %d after the repair, want %d", got, second)
	}
	if a, b := r.current(), r.current(); a != b {
		t.Error("loaded again without a change")
	}
}

func TestTLSFilesErrors(t *testing.T) {
	ca := newTestCA(t)
	files, _ := ca.issue(t, "server")
	other, _ := ca.issue(t, "other")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]TLSFiles{
		"no certificate": {},
		"wrong key":      {Cert: files.Cert, Key: other.Key},
		"missing file":   {Cert: files.Cert + "x", Key: files.Key},
		"empty CA":       {Cert: files.Cert, Key: files.Key, ClientCA: empty},
	} {
		if _, err := f.ServerConfig(); err == nil {
			t.Errorf("server, %s: no error", name)
		}
	}
	for name, f := range map[string]TLSFiles{
		"key without certificate": {Key: files.Key},
		"wrong key":               {Cert: files.Cert, Key: other.Key},
		"empty CA":                {CA: empty},
	} {
		if _, err := f.ClientConfig(); err == nil {
			t.Errorf("client, %s: no error", name)
		}
	}
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
