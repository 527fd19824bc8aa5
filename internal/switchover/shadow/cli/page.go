package cli

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

//go:embed page
var pageFiles embed.FS

// Page configures the admin page of a run, with the switch that turns the mirror off. Package admin decides
// about access.
type Page struct {
	Listen    string // ADDR; "" and "off": no page
	TokenFile string // file of the token; the switch always requires it, reading requires it off loopback
}

// open serves the page until closing is called.
func (p Page) open(r *shadow.Run, log *slog.Logger) (address string, closing func(), err error) {
	if p.Listen == "" || p.Listen == "off" {
		return "", func() {}, nil
	}
	var token *admin.Token
	if p.TokenFile != "" {
		if token, err = admin.ReadToken(p.TokenFile, log); err != nil {
			return "", nil, usage("--admin-token-file: %w", err)
		}
	}
	l, err := gateway.Listen(p.Listen)
	if err != nil {
		return "", nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(&metrics{r}); err != nil {
		return "", nil, errors.Join(err, l.Close())
	}
	s := admin.New(admin.Options{
		Routes: routes(r), Gatherer: registry, Access: admin.AccessOn(l.Addr(), token, nil), Log: log,
		Actions: []admin.Action{{Name: "off", Run: func() error {
			r.Off("the admin page")
			return nil
		}}},
	})
	go serve(s, admin.Limit(l), log)
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
	}, nil
}

func serve(s *admin.Server, l net.Listener, log *slog.Logger) {
	if err := s.Serve(l); err != nil {
		log.Error("the admin page ended", "err", err)
	}
}

// routes returns the handlers of the page and of its data.
func routes(r *shadow.Run) map[string]http.Handler {
	return map[string]http.Handler{
		"GET /{$}":     fileHandler("page/index.html", "text/html; charset=utf-8"),
		"GET /page.js": fileHandler("page/page.js", "text/javascript; charset=utf-8"),
		"GET /api/report": writeHandler("application/json", func(w io.Writer) error {
			return json.NewEncoder(w).Encode(r.Report())
		}),
		"GET /report":         reportHandler(r),
		"GET /api/report.txt": writeHandler("text/plain; charset=utf-8", func(w io.Writer) error { return r.Report().Text(w) }),
	}
}

// reportHandler serves the current report as --html writes it. Its styles are inline.
func reportHandler(r *shadow.Run) http.Handler {
	page := writeHandler("text/html; charset=utf-8", func(w io.Writer) error { return r.Report().HTML(w) })
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		page.ServeHTTP(w, req)
	})
}

func fileHandler(name, kind string) http.Handler {
	return writeHandler(kind, func(w io.Writer) error {
		content, err := pageFiles.ReadFile(name)
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	})
}

// writeHandler responds with the output of write, or with an error if write fails.
func writeHandler(kind string, write func(io.Writer) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var whole bytes.Buffer
		if err := write(&whole); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(whole.Bytes())
	})
}
