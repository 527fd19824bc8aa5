package http

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// What two gateways agree on stands here; docs/HTTP.md has the whole exchange.
const (
	pairHeader    = "Cinch-Pair"             // in replies of a gateway with peers; in upgrades with the window
	pairVersion   = "1"                      // what it says
	pairProtocol  = "cinch-pair/1"           // that a connection is upgraded to
	carriedCoding = "cinch-history"          // of bodies there
	codingHeader  = "Cinch-Content-Encoding" // the coding that such a body had before
	openedMark    = "opened "                // stands there before a coding if the body was opened, and is to get it again
	foreignMark   = "foreign"                // stands there if Content-Encoding is not ours, whatever it says
)

// isOurs reports whether codings that a client or an upstream has named are words of gateways.
func isOurs(codings []string) bool {
	named := strings.Join(codings, ", ")
	return strings.HasPrefix(named, carriedCoding) || strings.HasPrefix(named, openedMark) || named == foreignMark
}

// Bounds of histories, as log2 of bytes.
const (
	leastWindow = 17
	mostWindow  = 23
)

// formatTerms and parseTerms are about the Cinch-Pair field of an upgrade: "1; window=23".
func formatTerms(window int) string { return fmt.Sprintf("%s; window=%d", pairVersion, window) }

func parseTerms(h http.Header) (window int, ok bool) {
	version, terms, _ := strings.Cut(h.Get(pairHeader), ";")
	number, isWindow := strings.CutPrefix(strings.TrimSpace(terms), "window=")
	window, err := strconv.Atoi(number)
	return window, strings.TrimSpace(version) == pairVersion && isWindow && err == nil && window >= leastWindow && window <= mostWindow
}

// setCoding says which coding a body has; "" is none.
func setCoding(h http.Header, coding string) {
	if coding == "" {
		delete(h, "Content-Encoding")
		return
	}
	h["Content-Encoding"] = []string{coding}
}
