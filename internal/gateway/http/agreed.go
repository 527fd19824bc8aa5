package http

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Names and values that two gateways exchange; docs/HTTP.md describes the whole exchange.
const (
	pairHeader    = "Cinch-Pair"             // in replies of a gateway with peers, and with the window in upgrades
	pairVersion   = "1"                      // value of pairHeader
	openHeader    = "Cinch-Max-Open"         // in upgrades, both ways: the longest body that the sender decompresses, in bytes
	pairProtocol  = "cinch-pair/1"           // protocol to which a connection is upgraded
	carriedCoding = "cinch-history"          // content coding of bodies on such a connection
	codingHeader  = "Cinch-Content-Encoding" // the coding that such a body had before it was compressed
	openedMark    = "opened "                // before a coding in codingHeader: the far gateway has to restore it
	foreignMark   = "foreign"                // in codingHeader: Content-Encoding is not by a gateway
)

// isPeerCoding reports whether the codings named by a client or an upstream are values that gateways exchange.
func isPeerCoding(codings []string) bool {
	named := strings.Join(codings, ", ")
	return strings.HasPrefix(named, carriedCoding) || strings.HasPrefix(named, openedMark) || named == foreignMark
}

// Limits of the window of a history, as log2 of bytes.
const (
	minWindow = 17
	maxWindow = 23
)

// formatTerms returns the Cinch-Pair field of an upgrade: "1; window=23". parseTerms is its inverse.
func formatTerms(window int) string { return fmt.Sprintf("%s; window=%d", pairVersion, window) }

func parseTerms(h http.Header) (window int, ok bool) {
	version, terms, _ := strings.Cut(h.Get(pairHeader), ";")
	number, isWindow := strings.CutPrefix(strings.TrimSpace(terms), "window=")
	window, err := strconv.Atoi(number)
	return window, strings.TrimSpace(version) == pairVersion && isWindow && err == nil && window >= minWindow && window <= maxWindow
}

// maxOpenOf returns the longest body that a peer decompresses, as it says in an upgrade. Gateways of earlier
// versions don't say it.
func maxOpenOf(h http.Header) int {
	n, err := strconv.Atoi(h.Get(openHeader))
	if err != nil || n < 0 {
		return math.MaxInt
	}
	return n
}

// setCoding sets the Content-Encoding field; "" removes it.
func setCoding(h http.Header, coding string) {
	if coding == "" {
		delete(h, "Content-Encoding")
		return
	}
	h["Content-Encoding"] = []string{coding}
}
