package http

import (
	"bytes"
	"net/http"
	"testing"
)

// An upstream that doesn't like a request itself has not refused its coding.
func TestRefusedForOtherReasons(t *testing.T) {
	handler, got := recorder(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == "text/bad" {
			w.WriteHeader(http.StatusUnsupportedMediaType)
		}
	})
	g := start(t, startUpstream(t, handler), nil, requestsTo(t, "zstd"))
	if resp := post(t, g.url, bytes.NewReader(text), "Content-Type", "text/bad"); resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Error(resp.Status)
	}
	<-got
	<-got
	post(t, g.url, bytes.NewReader(text), "Content-Type", "text/good")
	if s := <-got; s.Header.Get("Content-Encoding") != "zstd" {
		t.Errorf("%v", s.Header)
	}
}
