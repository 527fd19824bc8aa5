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
	"github.com/cinch-layer/cinch/internal/history"
)

const (
	readTimeout  = 5 * time.Second
	writeTimeout = 15 * time.Second
	idleTimeout  = 2 * time.Minute
	// With profiles an answer may take as long as the profile.
	profileTimeout = 2 * time.Minute

	maxHeaderBytes = 16 << 10
	// Scrapes are cheap, but not so cheap that a stuck client may pile them up.
	maxScrapes = 4
)

// Options says what a Server shows. Metrics or Routes are needed, the rest is not.
type Options struct {
	Metrics   *gateway.Metrics
	Routes    map[string]http.Handler // by method and path: in place of the gateways' page, for a process of another kind
	Gatherer  prometheus.Gatherer     // behind /metrics; nil: there is no /metrics
	Describe  func() Description      // called for each answer, from any goroutine
	Ready     Readiness               // nil: always ready; likewise
	Messages  func() []GatewayKinds   // behind /api/messages, one call at a time; nil: there is none
	Memory    func() int64            // resident bytes of the process; nil: not told
	History   *history.History        // behind /api/history; nil: there is none
	Ledger    *Ledger                 // of the last hour, for money a month
	PProf     bool                    // serve /debug/pprof/
	Access    Access
	Actions   []Action
	Documents []Document
	Log       *slog.Logger
}

// Readiness says whether clients are served (nil), and what is amiss all the same. ErrNoGateway and ErrNoPolicy say that
// the question makes no sense.
type Readiness func(Question) (notes []string, err error)

// Question is what a probe asks. The zero value asks about the process, by the policy of its configuration.
type Question struct {
	Gateway string // about this one alone; "": all
	Policy  string // how many of all have to be ready: "all" or "any"; "": as configured
}

// What is wrong with a Question.
var (
	ErrNoGateway = errors.New("there is no gateway of that name")
	ErrNoPolicy  = errors.New("policy is all or any")
)

// Server is the admin listener's HTTP server.
type Server struct {
	opts    Options
	started time.Time
	http    http.Server
	events  *events

	asking    sync.Mutex // one question about the past at a time
	measuring sync.Mutex
	measured  []byte // the last answer of /api/messages
	at        time.Time
}

// New makes a server whose uptime begins now.
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

		DisableGeneralOptionsHandler: true, // OPTIONS * is judged as all else
		ErrorLog:                     slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}
	s.http.RegisterOnShutdown(sync.OnceFunc(s.events.end))
	if opts.PProf {
		s.http.WriteTimeout = profileTimeout
	}
	return s
}

// Most connections at a time: maxConns, or the descriptorPart-th part of the process's file descriptors if that is less, so that
// gateways have the others. A reader has a few, which it keeps.
const (
	maxConns       = 256
	descriptorPart = 8
)

// Limit bounds the connections that are accepted on l, which may be given to Serve then, below TLS or not. They are shared by
// address: at the bound the next one takes the place of the one that has been quiet for longest, of the address that has most.
// So probes are answered however many connections a client opens.
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

// Shutdown lets requests finish, and cuts them off when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	return err
}

// Handler returns all pages. Every route is for GET and HEAD only, but those of actions.
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
	if s.opts.PProf { // but for the command line, in which there may be passwords
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
	return hardened(s.guard(s.caught(mux)))
}

// caught has the log tell of a panic: net/http would, in words that are left out at the log's usual level, and a page that
// gets no answer looks like a process that is gone. The connection ends, as it would.
func (s *Server) caught(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler {
				s.opts.Log.Error("a fault of the admin page", "class", "panic", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// hardened tells browsers that our pages load nothing from elsewhere, are part
// of no other page, and are not to be kept.
func hardened(next http.Handler) http.Handler {
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
	doc, err := json.MarshalIndent(s.status(time.Now()), "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(doc, '\n'))
}

// Document is an answer in JSON that readers may ask for by GET /api/NAME.
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

// measureInterval is how long an answer about messages counts. It costs some compressing,
// and clients that ask often shall not make it cost more.
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
	notes, err := s.ready(questionOf(r))
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

// questionOf reads /readyz/NAME?policy=POLICY, or /readyz?gateway=NAME.
func questionOf(r *http.Request) Question {
	asked := r.URL.Query()
	q := Question{Gateway: asked.Get("gateway"), Policy: asked.Get("policy")}
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

func (s *Server) ready(q Question) (notes []string, err error) {
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
