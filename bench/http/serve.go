package main

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// serveAs runs the process of a role.
func serveAs(role, listen, to string, http2 bool) error {
	s := &http.Server{Addr: listen, Handler: http.HandlerFunc(swallow), Protocols: protocols(http2)}
	if role != "server" {
		target := &url.URL{Scheme: "http", Host: to}
		s.Handler = &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true, Protocols: protocols(http2)},
		}
	}
	return s.ListenAndServe()
}

func protocols(http2 bool) *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	return p
}

// swallow reads a body and sends a short answer.
func swallow(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "ok")
}
