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

	"golang.org/x/net/http/httpguts"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// choose decides how a rule recodes the body of a request or a reply with the header h. n is the body's length in
// bytes, -1 if unknown, and can is the set of codings that the receiver reads.
func (x *exchange) choose(rule *policy.MessageRule, h http.Header, n int64, can codings) (recoding, bool) {
	if rule == nil || mustNotChange(h) {
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

// lookup returns the first rule that covers the body of the request, or of the reply, with the header h. It
// returns nil if that rule says raw. If the length is unknown, n < 0, the first rule counts whatever its
// sizes.
func (x *exchange) lookup(d policy.Direction, h http.Header, n int64) *policy.MessageRule {
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

// countLeft counts a body that is not changed although rule covers it. A nil rule is ignored.
func (e *common) countLeft(rule *policy.MessageRule, reason string, n int64) {
	if rule != nil {
		e.cfg.Stats.Left(rule.Name, reason, int(max(n, 0)))
	}
}

// settingFor returns the setting and the coding with which a rule compresses for a receiver that reads the
// codings can. The coding is "" if the receiver does not read it.
func settingFor(rule *policy.MessageRule, can codings) (codec.Setting, string) {
	if rule.Auto {
		name := can.best()
		if name == "" {
			return codec.Setting{}, ""
		}
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
	if !strings.Contains(in.Host, ":") {
		return in.Host
	}
	if host, _, err := net.SplitHostPort(in.Host); err == nil {
		return host
	}
	return in.Host
}

// mediaType returns a content type without its parameters.
func mediaType(field string) string {
	if !strings.Contains(field, ";") {
		t := strings.ToLower(strings.TrimSpace(field))
		if kind, sub, slash := strings.Cut(t, "/"); httpguts.ValidHeaderFieldName(kind) && (!slash || httpguts.ValidHeaderFieldName(sub)) {
			return t // mime.ParseMediaType would allocate a map for the parameters
		}
		return ""
	}
	if t, _, err := mime.ParseMediaType(field); err == nil || t != "" {
		return t
	}
	return ""
}

// codingNames holds the content codings that the gateway reads and writes, in order of preference. "snappy"
// is its block format, as in Prometheus' remote write.
var codingNames = [...]string{"zstd", "gzip", "snappy"}

// codings is a set of codingNames: one bit for each, by its index.
type codings uint8

func bitOf(name string) codings {
	if name == "x-gzip" {
		name = "gzip"
	}
	for i, n := range codingNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

func (c codings) has(name string) bool { return c&bitOf(name) != 0 }

// best returns the preferred coding of the set, or "" if it is empty.
func (c codings) best() string {
	for i, n := range codingNames {
		if c&(1<<i) != 0 {
			return n
		}
	}
	return ""
}

// accepted returns the codings that the Accept-Encoding fields name with a weight above 0. "*" adds none.
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

// isZero reports whether a weight, such as "q=0.5", forbids the coding before it.
func isZero(weight string) bool {
	key, value, _ := strings.Cut(strings.TrimSpace(weight), "=")
	if !strings.EqualFold(strings.TrimSpace(key), "q") {
		return false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return err != nil || q <= 0
}

// codingOf returns the content coding of a body, "" without one. ok is false for several codings, and for one
// that the gateway does not read.
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

// signatureFields holds the fields that sign or hash a body as it is sent. Another coding would break the
// signature.
var signatureFields = [...]string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Signature", "Signature-Input", "X-Amz-Content-Sha256", "X-Goog-Content-Sha256", "X-Hub-Signature", "X-Hub-Signature-256"}

// signingSchemes holds prefixes, in lower case, of Authorization values that cover the body.
var signingSchemes = [...]string{"aws4-", "signature ", "oauth ", "hawk ", "sharedkey"}

// mustNotChange reports whether the body with the header h must not be changed: it is signed, is a part of
// something or a stream, or its sender forbids it.
func mustNotChange(h http.Header) bool {
	for _, name := range signatureFields {
		if len(h[name]) > 0 {
			return true
		}
	}
	return len(h["Content-Range"]) > 0 || forbidsTransforms(h) || isSigned(h.Get("Authorization")) || isStream(h.Get("Content-Type"))
}

// announcesSignature reports whether the trailers include a digest or a signature of the body.
func announcesSignature(trailer http.Header) bool {
	for _, name := range signatureFields {
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

// isStream reports whether a content type is a stream of events, or of another protocol's frames, each of
// which has to be sent at once.
func isStream(contentType string) bool {
	t := strings.ToLower(contentType)
	return strings.HasPrefix(t, "text/event-stream") || strings.HasPrefix(t, "application/grpc") || strings.HasPrefix(t, "multipart/x-mixed-replace")
}

// replyMustNotChange reports whether a reply must not be changed, for mustNotChange's reasons and others. A
// strong entity tag stands for the exact bytes.
func replyMustNotChange(in *http.Request, resp *http.Response) bool {
	h := resp.Header
	return resp.StatusCode != http.StatusOK || in.Method == http.MethodHead || len(in.Header["Range"]) > 0 ||
		len(h["Content-Encoding"]) > 0 || isStrong(h.Get("Etag")) || mustNotChange(h)
}

func isStrong(etag string) bool { return etag != "" && !strings.HasPrefix(etag, "W/") }

// acceptedCodings holds the codings that the upstream reads in bodies of requests: those that the operator
// configured, and those that replies name for a path (RFC 7694), except those that the upstream has refused
// since.
type acceptedCodings struct {
	configured codings

	mu    sync.Mutex
	paths map[string]pathCodings // by pathKey
}

// pathCodings holds the codings that a path's replies have named, and those that it has refused.
type pathCodings struct {
	named, refused codings
	at             time.Time // of the last refusal
}

// Limits of the memory: the number of paths, and the bytes of each that are remembered. Longer paths with the
// same beginning count as one.
const (
	maxPaths   = 4096
	maxPathKey = 512
)

// refusalTime is the time after which a refused coding is tried again, with a body that can be sent a second
// time.
const refusalTime = time.Minute

func pathKey(path string) string { return path[:min(len(path), maxPathKey)] }

func newAcceptedCodings(always []string) *acceptedCodings {
	k := &acceptedCodings{paths: map[string]pathCodings{}}
	for _, name := range always {
		k.configured |= bitOf(name)
	}
	return k
}

// codingsFor returns the codings that a request to a path may have. A refused coding is tried again only with a
// body that can be sent a second time (again).
func (k *acceptedCodings) codingsFor(path string, again bool) codings {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.paths[pathKey(path)]
	if again && time.Since(r.at) >= refusalTime {
		return k.configured | r.named
	}
	return (k.configured | r.named) &^ r.refused
}

// recordNamed records the codings that a reply names for a path. A refused coding stays refused if an earlier
// reply named it already: it was refused in spite of that.
func (k *acceptedCodings) recordNamed(path string, said codings) {
	k.change(path, func(r *pathCodings) {
		r.refused &^= said &^ r.named
		r.named = said
	})
}

// recordRefused records that a coding was refused. It reports whether that is new.
func (k *acceptedCodings) recordRefused(path, coding string) (isNew bool) {
	k.change(path, func(r *pathCodings) {
		isNew = r.refused&bitOf(coding) == 0
		r.refused, r.at = r.refused|bitOf(coding), time.Now()
	})
	return isNew
}

// recordAccepted records that a coding was accepted.
func (k *acceptedCodings) recordAccepted(path, coding string) {
	k.change(path, func(r *pathCodings) { r.refused &^= bitOf(coding) })
}

func (k *acceptedCodings) change(path string, f func(*pathCodings)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path = pathKey(path)
	r, found := k.paths[path]
	if f(&r); r == (pathCodings{}) {
		delete(k.paths, path)
		return
	}
	if !found && len(k.paths) >= maxPaths {
		k.forget()
	}
	k.paths[path] = r
}

// forget drops half of the paths, in no particular order. k.mu must be held.
func (k *acceptedCodings) forget() {
	keep := 0
	maps.DeleteFunc(k.paths, func(string, pathCodings) bool {
		keep++
		return keep > maxPaths/2
	})
}
