package http

import (
	"maps"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// choose finds what a rule makes of the body of a request or a reply with that header: n bytes, -1 if their number is
// not known, whose receiver reads some codings.
func (x *trip) choose(rule *policy.MessageRule, h http.Header, n int64, can codings) (recoding, bool) {
	if rule == nil || mustStay(h) {
		return recoding{}, false
	}
	from, known := codingOf(h)
	c := recoding{rule: rule, from: from}
	c.setting, c.to = settingFor(rule, can)
	var reason string
	switch {
	case c.to == "":
		reason = leftUnread
	case !known:
		reason = leftForeign
	case c.from == c.to:
		reason = leftSame
	case n > int64(x.cfg.MaxCompress):
		reason = leftLarge
	default:
		return c, true
	}
	x.countLeft(rule, reason, n)
	return recoding{}, false
}

// lookup returns the first rule that covers the body of the request, or of the reply, with that header, nil if that says raw. Of
// unknown length, n < 0, it is the first one whatever the sizes.
func (x *trip) lookup(d policy.Direction, h http.Header, n int64) *policy.MessageRule {
	a := policy.MessageAddress{
		Space: []byte(x.in.URL.Path), Command: []byte(x.in.Method), Host: []byte(hostOf(x.in)),
		Type: []byte(mediaType(h.Get("Content-Type"))), Direction: d, Size: int(max(n, 0)),
	}
	if n >= 0 {
		return x.rules.Lookup(a)
	}
	if rules := x.rules.Covering(nil, a); len(rules) > 0 && !rules[0].Raw() {
		return rules[0]
	}
	return nil
}

// countLeft counts a body that is not changed as its rule (nil: none) wants.
func (e *common) countLeft(rule *policy.MessageRule, reason string, n int64) {
	if rule != nil {
		e.cfg.Stats.Left(rule.Name, reason, int(max(n, 0)))
	}
}

// settingFor returns what a rule compresses with for a receiver of some codings, and its name; "" if it is not among those.
func settingFor(rule *policy.MessageRule, can codings) (codec.Setting, string) {
	if rule.Auto {
		name := can.best()
		id, err := codec.ParseID(name)
		if err != nil {
			return codec.Setting{}, ""
		}
		return codec.Setting{Codec: id}, name
	}
	name := rule.Setting.Codec.String()
	if !can.has(name) {
		return codec.Setting{}, ""
	}
	return rule.Setting, name
}

func hostOf(in *http.Request) string {
	if host, _, err := net.SplitHostPort(in.Host); err == nil {
		return host
	}
	return in.Host
}

// mediaType is a content type without its parameters.
func mediaType(field string) string {
	if t, _, err := mime.ParseMediaType(field); err == nil || t != "" {
		return t
	}
	return ""
}

// names are content codings that we read and write, in the order in which we like them; "snappy" is its block format, as
// Prometheus' remote write has it.
var names = [...]string{"zstd", "gzip", "snappy"}

// codings is a set of names: bits by their place there.
type codings uint8

func bitOf(name string) codings {
	if name == "x-gzip" {
		name = "gzip"
	}
	for i, n := range names {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

func (c codings) has(name string) bool { return c&bitOf(name) != 0 }

// best is the one that we like most among them; "" if there is none.
func (c codings) best() string {
	for i, n := range names {
		if c&(1<<i) != 0 {
			return n
		}
	}
	return ""
}

// accepted are those that an Accept-Encoding field names with a weight above 0. "*" names none.
func accepted(h http.Header) (c codings) {
	for _, field := range h["Accept-Encoding"] {
		for item := range strings.SplitSeq(field, ",") {
			name, weight, weighted := strings.Cut(item, ";")
			if weighted && isZero(weight) {
				continue
			}
			c |= bitOf(strings.ToLower(strings.TrimSpace(name)))
		}
	}
	return c
}

// isZero reports whether a weight, "q=0.5", forbids what it stands behind.
func isZero(weight string) bool {
	key, value, _ := strings.Cut(strings.TrimSpace(weight), "=")
	if !strings.EqualFold(strings.TrimSpace(key), "q") {
		return false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return err != nil || q <= 0
}

// codingOf is the content coding of a body: "" without one. What has several, or one that we don't read, is not ok.
func codingOf(h http.Header) (name string, ok bool) {
	fields := h["Content-Encoding"]
	if len(fields) == 0 {
		return "", true
	}
	name = strings.ToLower(strings.TrimSpace(fields[0]))
	switch {
	case len(fields) > 1:
		return "", false
	case name == "" || name == "identity":
		return "", true
	case name == "x-gzip":
		name = "gzip"
	}
	return name, bitOf(name) != 0
}

// signed are the fields of bodies that are signed, or hashed as they are sent: another coding would break that.
var signed = [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Signature", "Signature-Input", "X-Amz-Content-Sha256", "X-Goog-Content-Sha256", "X-Hub-Signature", "X-Hub-Signature-256"}

// signingSchemes begin the values of Authorization that cover the body, in lower case.
var signingSchemes = [...]string{"aws4-", "signature ", "oauth ", "hawk ", "sharedkey"}

// mustStay reports whether the body that h is about may not be changed: it is signed, is a part or a stream of something, or its
// sender forbids it.
func mustStay(h http.Header) bool {
	for _, name := range signed {
		if len(h[name]) > 0 {
			return true
		}
	}
	return len(h["Content-Range"]) > 0 || forbidsTransforms(h) || isSigned(h.Get("Authorization")) || isStream(h.Get("Content-Type"))
}

// announces reports whether trailers will hold a digest or a signature of the body.
func announces(trailer http.Header) bool {
	for _, name := range signed {
		if _, there := trailer[name]; there {
			return true
		}
	}
	return false
}

func isSigned(authorization string) bool {
	a := strings.ToLower(authorization)
	for _, scheme := range signingSchemes {
		if strings.HasPrefix(a, scheme) {
			return true
		}
	}
	scheme, rest, _ := strings.Cut(a, " ")
	return strings.Contains(scheme, "hmac") || scheme == "digest" && strings.Contains(rest, "auth-int")
}

func forbidsTransforms(h http.Header) bool {
	for _, field := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(field, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "no-transform") {
				return true
			}
		}
	}
	return false
}

// isStream reports whether a content type is a stream of events, or another protocol's frames: each has to be sent at once.
func isStream(contentType string) bool {
	t := strings.ToLower(contentType)
	return strings.HasPrefix(t, "text/event-stream") || strings.HasPrefix(t, "application/grpc") || strings.HasPrefix(t, "multipart/x-mixed-replace")
}

// replyMustStay reports whether a reply may not be changed, beyond what mustStay says. A strong entity tag stands for the
// bytes as they are.
func replyMustStay(in *http.Request, resp *http.Response) bool {
	h := resp.Header
	return resp.StatusCode != http.StatusOK || in.Method == http.MethodHead || len(in.Header["Range"]) > 0 ||
		len(h["Content-Encoding"]) > 0 || isStrong(h.Get("Etag")) || mustStay(h)
}

func isStrong(etag string) bool { return etag != "" && !strings.HasPrefix(etag, "W/") }

// knowledge holds the codings that the upstream reads in bodies of requests: those that the operator configured and those that
// replies name for one path (RFC 7694), without those that it has refused since.
type knowledge struct {
	always codings

	mu    sync.Mutex
	paths map[string]reads // by pathKey
}

// reads holds the codings that a path's replies have named, and those that it has refused.
type reads struct {
	said, refused codings
	at            time.Time // of the last refusal
}

// What is remembered: so many paths, and of each so many bytes. Longer ones that begin alike are one.
const (
	knownPaths = 4096
	knownBytes = 512
)

// refusalTime is the time after which a refused coding is tried again, by a body that can be sent once more.
const refusalTime = time.Minute

func pathKey(path string) string { return path[:min(len(path), knownBytes)] }

func newKnowledge(always []string) *knowledge {
	k := &knowledge{paths: map[string]reads{}}
	for _, name := range always {
		k.always |= bitOf(name)
	}
	return k
}

// accepts returns the codings that a request to a path may have. Whether the upstream still refuses one is tried only with a body
// that can be sent once more.
func (k *knowledge) accepts(path string, again bool) codings {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.paths[pathKey(path)]
	if again && time.Since(r.at) >= refusalTime {
		return k.always | r.said
	}
	return (k.always | r.said) &^ r.refused
}

// learn takes what a reply about a path says. A coding that it named before was refused all the same.
func (k *knowledge) learn(path string, said codings) {
	k.change(path, func(r *reads) {
		r.refused &^= said &^ r.said
		r.said = said
	})
}

// refuse records that a coding was refused. It reports whether that is new.
func (k *knowledge) refuse(path, coding string) (isNew bool) {
	k.change(path, func(r *reads) {
		isNew = r.refused&bitOf(coding) == 0
		r.refused, r.at = r.refused|bitOf(coding), time.Now()
	})
	return isNew
}

// took records that a coding was not refused.
func (k *knowledge) took(path, coding string) {
	k.change(path, func(r *reads) { r.refused &^= bitOf(coding) })
}

func (k *knowledge) change(path string, f func(*reads)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path = pathKey(path)
	r, found := k.paths[path]
	if f(&r); r == (reads{}) {
		delete(k.paths, path)
		return
	}
	if !found && len(k.paths) >= knownPaths {
		k.forget()
	}
	k.paths[path] = r
}

// forget drops half of the paths, whichever. k.mu is held.
func (k *knowledge) forget() {
	keep := 0
	maps.DeleteFunc(k.paths, func(string, reads) bool {
		keep++
		return keep > knownPaths/2
	})
}
