package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certCheckInterval is the shortest time between two checks of the files by handshakes.
const certCheckInterval = time.Second

// TLSFiles names the files of certificates and keys, all PEM. Certificates and keys, and on a server the
// client CAs, are read again when their files have changed. A change that can't be used is logged, and the
// last good state kept.
type TLSFiles struct {
	Cert, Key  string // the gateway's certificate with its chain, and its key
	ClientCA   string // server: require client certificates signed by these
	CA         string // client: trust these instead of the system's; read once
	ServerName string // client: name to check instead of the host

	// InsecureSkipVerify makes a client accept any certificate, so that TLS protects against passive
	// eavesdroppers only, not against a man in the middle.
	InsecureSkipVerify bool

	Log *slog.Logger // for reloads; nil: they are not logged
}

// ServerConfig reads the files and returns the configuration of a server.
func (f TLSFiles) ServerConfig() (*tls.Config, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("tls: cert and key are needed")
	}
	r := newReloader(f.Log, f.loadServer, f.Cert, f.Key, f.ClientCA)
	if _, err := r.loadFirst(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return r.current(), nil
		},
	}, nil
}

// ClientConfig reads the files and returns the configuration of a client.
func (f TLSFiles) ClientConfig() (*tls.Config, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("tls: cert and key belong together")
	}
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         f.ServerName,
		InsecureSkipVerify: f.InsecureSkipVerify,
	}
	if f.CA != "" {
		pool, err := loadPool(f.CA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = pool
	}
	if f.Cert == "" {
		return cfg, nil
	}
	r := newReloader(f.Log, f.loadClient, f.Cert, f.Key)
	if _, err := r.loadFirst(); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return r.current(), nil
	}
	return cfg, nil
}

func (f TLSFiles) loadServer() (*tls.Config, error) {
	cert, err := f.loadClient()
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}}
	if f.ClientCA == "" {
		return cfg, nil
	}
	if cfg.ClientCAs, err = loadPool(f.ClientCA); err != nil {
		return nil, err
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	return cfg, nil
}

func (f TLSFiles) loadClient() (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("tls: %s, %s: %w", f.Cert, f.Key, err)
	}
	return &cert, nil
}

func loadPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: %s: no PEM certificate in the file", file)
	}
	return pool, nil
}

// reloader keeps a value loaded from files, and loads it again when the size or time of one of them has
// changed. Between changes it returns the same value, also because a tls.Config owns the keys of its session
// tickets.
type reloader[T any] struct {
	load  func() (*T, error)
	files []string
	every time.Duration // between two checks of the files
	log   *slog.Logger

	mu      sync.Mutex
	value   *T
	stamps  []stamp
	checked time.Time
}

// stamp is the size and time of a file, by which a change is noticed.
type stamp struct {
	size int64
	time time.Time
}

func newReloader[T any](log *slog.Logger, load func() (*T, error), files ...string) *reloader[T] {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &reloader[T]{load: load, every: certCheckInterval, log: log}
	for _, f := range files {
		if f != "" {
			r.files = append(r.files, f)
		}
	}
	return r
}

func (r *reloader[T]) loadFirst() (*T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamps, r.checked = r.stat(), time.Now()
	value, err := r.load()
	r.value = value
	return value, err
}

// current returns the last good state, after checking the files if that is due. Handshakes wait for it:
// reading small files takes less time than a handshake.
func (r *reloader[T]) current() *T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < r.every {
		return r.value
	}
	r.checked = time.Now()
	stamps := r.stat() // before loading: a change in between is found next time
	if equalStamps(stamps, r.stamps) {
		return r.value
	}
	value, err := r.load()
	if err != nil {
		// Files are often replaced one after the other. The stamps stay, so that the next check tries again.
		r.log.Warn("tls files changed but can't be used, keeping the old ones", "err", err)
		return r.value
	}
	r.value, r.stamps = value, stamps
	r.log.Info("tls files reloaded", "files", r.files)
	return r.value
}

func (r *reloader[T]) stat() []stamp {
	stamps := make([]stamp, len(r.files))
	for i, f := range r.files {
		if info, err := os.Stat(f); err == nil {
			stamps[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return stamps
}

func equalStamps(a, b []stamp) bool {
	for i := range a {
		if a[i].size != b[i].size || !a[i].time.Equal(b[i].time) {
			return false
		}
	}
	return true
}
