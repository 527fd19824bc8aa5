package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/history"
)

const (
	readTimeout  = 5 * time.Second
	writeTimeout = 15 * time.Second
	idleTimeout  = 2 * time.Minute
	// With profiles an answer may take as long as the profile.
	profileTimeout = 2 * time.Minute

	maxHeaderBytes = 16 << 10
	// Scrapes are cheap, but a stuck client must not accumulate them.
	maxScrapes = 4
)

// Options configures a Server. Metrics or Routes are required.
type Options struct {
	Metrics   *gateway.Metrics
	Routes    map[string]http.Handler // by method and path: replaces the gateways' page in other kinds of processes
	Gatherer  prometheus.Gatherer     // for /metrics; nil: no /metrics
	Describe  func() Description      // called for each answer, from any goroutine
	Ready     Readiness               // nil: always ready; called like Describe
	Messages  func() []GatewayKinds   // for /api/messages, one call at a time; nil: none
	Memory    func() int64            // resident bytes of the process; nil: unknown
	History   *history.History        // for /api/history; nil: none
	Ledger    *Ledger                 // of the last hour, for money per month
	PProf     bool                    // serve /debug/pprof/
	Access    Access
	Actions   []Action
	Documents []Document
	Log       *slog.Logger
}

// Readiness returns nil if clients are served, and notes on other problems. ErrNoGateway and ErrNoPolicy
// report invalid questions.
type Readiness func(ReadyQuery) (notes []string, err error)

// ReadyQuery selects what a probe asks about. The zero value asks about the process, by the configured policy.
type ReadyQuery struct {
	Gateway string // only this gateway; "": all
	Policy  string // how many gateways have to be ready: "all" or "any"; "": as configured
}

// Errors of a ReadyQuery.
var (
	ErrNoGateway = errors.New("there is no gateway with that name")
	ErrNoPolicy  = errors.New("policy must be all or any")
)

// Server is the admin listener's HTTP server.
type Server struct {
	opts    Options
	started time.Time
	http    http.Server
	events  *events

	querying  sync.Mutex // one query of the past at a time
	measuring sync.Mutex
	measured  []byte // the last answer of /api/messages
	at        time.Time
}

// New returns a server whose uptime begins now.
func New(opts Options) *Server {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, started: time.Now()}
	s.events = newEvents(s.status)
	s.http = http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,

		DisableGeneralOptionsHandler: true, // OPTIONS * needs the same access as everything else
		ErrorLog:                     slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}
	s.http.RegisterOnShutdown(sync.OnceFunc(s.events.close))
	if opts.PProf {
		s.http.WriteTimeout = profileTimeout
	}
	return s
}

// Limits of concurrent connections: maxConns, or the process's file descriptors divided by descriptorPart if
// that is less, so that enough remain for gateways. A reader keeps a few connections.
const (
	maxConns       = 256
	descriptorPart = 8
)

// Limit limits the connections accepted on l, which may then be given to Serve, directly or below TLS.
// At the limit a new connection replaces one of the address that has the most: the one that has been idle for
// longest. So probes are answered however many connections a client opens.
func Limit(l net.Listener) net.Listener {
	limit := &gateway.ConnLimit{Max: maxConns, DescriptorPart: descriptorPart, Renew: true}
	return limit.Listener(l, nil)
}

// Serve answers on l until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown lets requests finish, and closes connections when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	return err
}

// Handler returns the handler for all pages. All routes except those of actions are for GET and HEAD only.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for route, h := range s.opts.Routes {
		mux.Handle(route, h)
	}
	if s.opts.Routes != nil {
		mux.HandleFunc("GET /page.css", serveAsset("page.css"))
	} else {
		mux.HandleFunc("GET /{$}", s.servePage)
		for _, name := range assets() {
			mux.HandleFunc("GET /"+name, serveAsset(name))
		}
		mux.HandleFunc("GET /api/status", s.serveStatus)
		mux.Handle("GET /api/events", s.events)
	}
	if s.opts.Messages != nil {
		mux.HandleFunc("GET /api/messages", s.serveMessages)
	}
	if s.opts.History != nil {
		mux.HandleFunc("GET /api/history", s.serveHistory)
	}
	mux.HandleFunc("GET /healthz", serveHealth)
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.HandleFunc("GET /readyz/{gateway...}", s.serveReady)
	if s.opts.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{
			EnableOpenMetrics:   true,
			MaxRequestsInFlight: maxScrapes,
			ErrorLog:            slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelWarn),
		}))
	}
	if s.opts.PProf { // except the command line, which may contain passwords
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	for _, d := range s.opts.Documents {
		mux.HandleFunc("GET /api/"+d.Name, serveDocument(d))
	}
	for _, a := range s.opts.Actions {
		mux.HandleFunc("POST /api/actions/"+a.Name, s.serveAction(a))
	}
	return withSecurityHeaders(s.guard(s.recoverPanics(mux)))
}

// recoverPanics logs a panic as an error, since net/http would log it below the usual level and the page shows only
// that there is no answer. The connection is closed, as by net/http.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler {
				s.opts.Log.Error("internal error of the admin page", "class", "panic", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// withSecurityHeaders tells browsers that these pages load nothing from other sites, must not be framed by other
// pages, and must not be stored.
func withSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; "+
			"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) servePage(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, s.opts.Metrics); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes())
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.status(time.Now()))
}

// Document is a JSON document that readers get by GET /api/NAME.
type Document struct {
	Name string
	Get  func() any // from any goroutine
}

func serveDocument(d Document) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, d.Get()) }
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(doc, '\n'))
}

// measureInterval is the maximum age of an answer about messages. Making one takes some compressing, which
// frequent requests must not multiply.
const measureInterval = 5 * time.Second

func (s *Server) serveMessages(w http.ResponseWriter, _ *http.Request) {
	s.measuring.Lock()
	defer s.measuring.Unlock()
	if s.measured == nil || time.Since(s.at) > measureInterval {
		doc, err := json.MarshalIndent(append([]GatewayKinds{}, s.opts.Messages()...), "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.measured, s.at = append(doc, '\n'), time.Now()
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.measured)
}

func serveHealth(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok\n"))
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	notes, err := s.ready(parseReadinessQuery(r))
	if err != nil {
		http.Error(w, err.Error(), readyStatus(err))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
	for _, note := range notes {
		_, _ = w.Write([]byte("degraded: " + note + "\n"))
	}
}

// parseReadinessQuery parses /readyz/NAME?policy=POLICY, or /readyz?gateway=NAME.
func parseReadinessQuery(r *http.Request) ReadyQuery {
	query := r.URL.Query()
	q := ReadyQuery{Gateway: query.Get("gateway"), Policy: query.Get("policy")}
	if name, ok := strings.CutPrefix(r.URL.Path, "/readyz/"); ok {
		q.Gateway = name
	}
	return q
}

func readyStatus(err error) int {
	switch {
	case errors.Is(err, ErrNoGateway):
		return http.StatusNotFound
	case errors.Is(err, ErrNoPolicy):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func (s *Server) ready(q ReadyQuery) (notes []string, err error) {
	if s.opts.Ready == nil {
		return nil, nil
	}
	return s.opts.Ready(q)
}

func (s *Server) describe() Description {
	if s.opts.Describe == nil {
		return Description{}
	}
	return s.opts.Describe()
}
