package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Access controls who may read the pages. On loopback (Open) every user of the machine may read, if the request's
// host name means this machine. On any other address, and for the zero value, reading takes a token or a client
// certificate. Probes are always answered; without access the answer is a single word.
type Access struct {
	Open  bool   // the listener is on loopback or a unix socket: reading takes no credentials
	Local bool   // it is a unix socket: browsers can't reach it, and the host is ignored
	Token *Token // nil: none
	// Credentials reports whether clients can authenticate, with a token or with a certificate signed by the
	// listener's CA.
	Credentials bool
	Hosts       []string // the listener's names besides localhost, as a proxy in front passes them on
}

// AccessOn returns the access to a listener at an address.
func AccessOn(l net.Addr, token *Token, hosts []string) Access {
	a := Access{Token: token, Credentials: token != nil, Hosts: hosts, Local: l.Network() == "unix"}
	tcp, ok := l.(*net.TCPAddr)
	a.Open = a.Local || ok && tcp.IP.IsLoopback()
	return a
}

// accessLevel limits which actions a request may take.
type accessLevel int

const (
	probesOnly accessLevel = iota // only probes
	wrongHost                     // only probes: its host does not mean this machine
	readOnly
	authenticated // it has credentials
)

func (a *Access) levelOf(r *http.Request) accessLevel {
	switch {
	case a.isAuthenticated(r):
		return authenticated
	case !a.Open:
		return probesOnly
	case !a.Local && !a.isLocalHost(r.Host):
		return wrongHost
	}
	return readOnly
}

// isAuthenticated reports whether a request has a client certificate that the listener has verified, or the token: as
// a bearer token, or as the password of any user, which browsers ask for.
func (a *Access) isAuthenticated(r *http.Request) bool {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return true
	}
	if _, password, ok := r.BasicAuth(); ok {
		return a.Token.matches(password)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "bearer") && a.Token.matches(strings.TrimSpace(token))
}

// isLocalHost reports whether a host means this machine. Any other name that leads here could belong to a page of
// another site that wants to read this one.
func (a *Access) isLocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return net.ParseIP(host) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(a.Hosts, host)
}

// isSameOrigin reports whether no other page's script has made a browser send the request.
func isSameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	_, host, _ := strings.Cut(origin, "://")
	return origin == "" || host == r.Host
}

// isNavigation reports whether a user has followed a link to this page. No script of another page can read the answer.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// guard passes a request to next if it has access and was not made by another site's page. It answers other probes
// with a single word, and refuses other requests.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		may := s.opts.Access.levelOf(r)
		switch {
		case may >= readOnly && (isSameOrigin(r) || isNavigation(r)):
			next.ServeHTTP(w, r)
		case s.probe(w, r):
		case may >= readOnly: // browsers hide answers from such a page, but still request streams and profiles
			s.opts.Log.Warn("refused a request from another site's page", "client", r.RemoteAddr, "path", r.URL.Path, "origin", r.Header.Get("Origin"))
			http.Error(w, "requests from another site's page are refused", http.StatusForbidden)
		case may == wrongHost:
			s.opts.Log.Warn("admin page requested under an unknown host name", "client", r.RemoteAddr, "host", r.Host)
			http.Error(w, "unknown host name "+fmt.Sprintf("%.80q", r.Host)+": use localhost or an address, or list the name in admin.hosts", http.StatusMisdirectedRequest)
		default:
			if r.Header.Get("Authorization") != "" {
				s.opts.Log.Warn("admin page: wrong token", "client", r.RemoteAddr)
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="cinch: any name, and the token as password", charset="UTF-8"`)
			http.Error(w, "the token of admin.token_file is required, or a client certificate signed by admin.tls.client_ca", http.StatusUnauthorized)
		}
	})
}

// probe answers /healthz and /readyz to clients that may not read. The answer contains neither reasons nor
// addresses.
func (s *Server) probe(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	switch path := r.URL.Path; {
	case path == "/healthz":
		serveHealth(w, r)
	case path == "/readyz", strings.HasPrefix(path, "/readyz/"):
		s.probeReady(w, r)
	default:
		return false
	}
	return true
}

func (s *Server) probeReady(w http.ResponseWriter, r *http.Request) {
	_, err := s.ready(parseReadinessQuery(r))
	switch status := readyStatus(err); {
	case err == nil:
		_, _ = w.Write([]byte("ok\n"))
	case status == http.StatusServiceUnavailable:
		http.Error(w, "not ready", status)
	default:
		http.Error(w, err.Error(), status)
	}
}

// Action is an action that a page requests by POST /api/actions/NAME. It takes credentials on every address.
type Action struct {
	Name string
	Run  func() error
	// Do replaces Run. It gets the posted body and returns a value that is sent as JSON. Its context ends
	// when the client stops waiting. Errors that are JSON themselves are sent unchanged.
	Do func(ctx context.Context, posted []byte) (any, error)
}

type clientKey struct{}

// Client returns the client that requests an action, for the log, from the context of Do.
func Client(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}

// clientOf returns a client's address, with the name in its certificate if it has one.
func clientOf(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return r.RemoteAddr
	}
	return r.RemoteAddr + " " + r.TLS.PeerCertificates[0].Subject.String()
}

const (
	maxPosted     = 64 << 10         // bytes
	actionTimeout = 15 * time.Minute // for an answer
)

// serveDo answers an action that takes some time.
func (s *Server) serveDo(w http.ResponseWriter, r *http.Request, a Action) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(actionTimeout))
	posted, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPosted))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := a.Do(context.WithValue(r.Context(), clientKey{}, clientOf(r)), posted)
	s.opts.Log.Info("action", "action", a.Name, "client", clientOf(r), "err", err)
	var own json.Marshaler
	switch {
	case errors.As(err, &own):
		writeJSON(w, http.StatusConflict, own)
	case err != nil:
		writeJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

func (s *Server) serveAction(a Action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Access.levelOf(r) != authenticated { // guard has checked the origin
			w.Header().Set("WWW-Authenticate", `Basic realm="cinch", charset="UTF-8"`)
			http.Error(w, "actions need the token of admin.token_file, or a client certificate, on every address", http.StatusUnauthorized)
			return
		}
		if a.Do != nil {
			s.serveDo(w, r, a)
			return
		}
		err := a.Run()
		s.opts.Log.Info("action", "action", a.Name, "client", clientOf(r), "err", err)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// Token is a secret from a file, which is read again when it changes.
type Token struct {
	file string
	log  *slog.Logger

	mu        sync.Mutex
	hash      [sha256.Size]byte
	changed   time.Time
	checkedAt time.Time
}

const (
	minToken           = 16 // bytes
	maxToken           = 4 << 10
	tokenCheckInterval = time.Second // interval between checks of the file
)

// ReadToken reads the file. It may end with a line break.
func ReadToken(file string, log *slog.Logger) (*Token, error) {
	t := &Token{file: file, log: log}
	if err := t.read(); err != nil {
		return nil, err
	}
	t.checkedAt = time.Now()
	return t, nil
}

// errShortToken is returned for tokens of a bad length.
var errShortToken = errors.New("a token has 16 to 4096 bytes: make one with openssl rand -hex 32")

func (t *Token) read() error {
	info, err := os.Stat(t.file)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(t.changed) {
		return nil
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	text = bytes.TrimSpace(text)
	if len(text) < minToken || len(text) > maxToken {
		return fmt.Errorf("%s: %w", t.file, errShortToken)
	}
	t.hash, t.changed = sha256.Sum256(text), info.ModTime()
	return nil
}

// matches compares in constant time. A nil Token matches nothing.
func (t *Token) matches(text string) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	if now := time.Now(); now.Sub(t.checkedAt) > tokenCheckInterval {
		t.checkedAt = now
		if err := t.read(); err != nil {
			t.log.Warn("token file changed but can't be used, keeping the old one", "err", err)
		}
	}
	hash := t.hash
	t.mu.Unlock()
	given := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(given[:], hash[:]) == 1
}
