package http

import (
	"maps"
	"net/http"
)

// replyWriter writes replies to a client as the upstream gave them.
type replyWriter struct {
	http.ResponseWriter
	x   *trip
	own http.Header // what the gateway adds to the last reply
}

// newReplyWriter keeps what is in w's header for the last reply: the reverse proxy empties it behind each one before that.
func newReplyWriter(w http.ResponseWriter, x *trip) *replyWriter {
	h := w.Header()
	own := maps.Clone(h)
	clear(h)
	return &replyWriter{w, x, own}
}

// WriteHeader begins a reply, or is one that comes before the last.
func (w *replyWriter) WriteHeader(status int) {
	in, h := w.x.in, w.Header()
	switch {
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		if !w.unknown(status) {
			w.ResponseWriter.WriteHeader(status)
		}
		return
	case in.ProtoMajor == 1 && !w.x.bodyEnded():
		h["Connection"] = []string{"close"} // what still comes of the body must not be taken for a request
	}
	if w.x.carried != nil && w.x.carried.isFull() {
		h["Connection"] = []string{"close"}
	}
	maps.Copy(h, w.own)
	if len(h["Content-Type"]) == 0 {
		h["Content-Type"] = nil // where the upstream names none the server would guess
	}
	w.ResponseWriter.WriteHeader(status)
}

// unknown reports whether the client wouldn't know what to do with a reply before the last one: it is of HTTP/1.0, or has been
// told to continue.
func (w *replyWriter) unknown(status int) bool {
	in := w.x.in
	return !in.ProtoAtLeast(1, 1) || status == http.StatusContinue && len(in.Header["Expect"]) > 0 && w.x.bodyEnded()
}

// Unwrap is for http.ResponseController.
func (w *replyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
