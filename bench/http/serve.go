package main

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// serveAs is the process of a role.
func serveAs(role, listen, to string) error {
	if role == "server" {
		return http.ListenAndServe(listen, http.HandlerFunc(swallow))
	}
	target := &url.URL{Scheme: "http", Host: to}
	return http.ListenAndServe(listen, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
	})
}

// swallow reads a body and says little.
func swallow(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "ok")
}
