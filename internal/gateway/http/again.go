package http

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// resender sends requests to the upstream. What is answered with 415 (Unsupported Media Type) because of the coding that we
// gave it is sent once more as it came: the upstream has done nothing with it.
type resender struct{ transport http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s resender) RoundTrip(out *http.Request) (*http.Response, error) {
	x := tripOf(out)
	switch {
	case x.broken != nil:
		return nil, x.broken
	case x.carrier != nil:
		return x.sendCarried(s, out)
	}
	resp, err := s.plain(x, out)
	if err != nil {
		return nil, err
	}
	path := pathOf(x.in)
	if said := resp.Header["Accept-Encoding"]; len(said) > 0 {
		x.knows.learn(path, accepted(resp.Header))
	}
	if x.coding == "" || resp.StatusCode != http.StatusUnsupportedMediaType {
		return resp, nil
	}
	coding := x.coding
	if x.again != nil { // else nobody has the body any more
		_, _ = io.CopyN(io.Discard, resp.Body, copyBytes)
		_ = resp.Body.Close()
		resp, err = s.plain(x, x.asItCame(out))
		if err != nil || resp.StatusCode == http.StatusUnsupportedMediaType {
			return resp, err // it was not for the coding
		}
	}
	x.knows.refuse(path, coding)
	x.cfg.Stats.Error("coding_refused")
	x.cfg.Log.Warn("the upstream refuses a content coding, requests to that path go as they come from now on", "coding", coding, "path", x.in.URL.Path)
	return resp, nil
}

// plain sends a request over a connection without history, and finds out who answers it.
func (s resender) plain(x *trip, out *http.Request) (*http.Response, error) {
	resp, err := s.transport.RoundTrip(out)
	if errors.Is(err, context.Canceled) && out.Context().Err() == nil && mayComeTwice(out) {
		resp, err = s.transport.RoundTrip(out)
	}
	if err == nil && x.farSide != nil {
		x.farSide.saw(resp.Header.Get(pairHeader) == pairVersion)
		delete(resp.Header, pairHeader)
	}
	return resp, err
}

// mayComeTwice reports whether the upstream may get a request again. net/http gives a connection to the next request before it
// has told the last one of its reply; if that is cancelled at this moment the next one ends with its error.
func mayComeTwice(out *http.Request) bool {
	switch out.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return out.Body == nil || out.Body == http.NoBody
	}
	return false
}

// asItCame is the request with its body as the client sent it.
func (x *trip) asItCame(out *http.Request) *http.Request {
	again := out.Clone(out.Context())
	delete(again.Header, codingHeader)
	if x.again == nil {
		return again // there is no body
	}
	if x.again.encoding == nil {
		delete(again.Header, "Content-Encoding")
	} else {
		again.Header["Content-Encoding"] = x.again.encoding
	}
	x.setBody(again, x.again.body)
	if len(again.Trailer) > 0 {
		again.ContentLength = -1
	}
	x.again, x.coding = nil, ""
	return again
}
