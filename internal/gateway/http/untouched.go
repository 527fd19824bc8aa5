package http

import (
	"net/http"
	"strings"
)

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

// isStream reports whether a content type is of events that somebody waits for one by one, or of another protocol's frames.
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
