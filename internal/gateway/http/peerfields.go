package http

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
)

// Names and values that two gateways exchange; docs/HTTP.md describes the whole exchange. They have no meaning
// between a gateway and other clients or servers.
const (
	linkHeader    = "Cinch-Link"             // in replies of gateways that accept links, and in requests over links: linkVersion and limits
	linkVersion   = "1"                      // first in linkHeader
	lanesCoding   = lanes.Encoding           // content coding of bodies that are a message in a lane
	codingHeader  = "Cinch-Content-Encoding" // what happened to a body's coding: openedMark and the coding, or foreignMark
	openedMark    = "opened "                // before a coding in codingHeader: the far gateway has to restore it
	foreignMark   = "foreign"                // in codingHeader: Content-Encoding is not by a gateway
	maxOpenOption = "max_open="              // in linkHeader: the longest body that the sender decompresses, in bytes
)

// formatTerms returns the value of linkHeader for a gateway that decompresses bodies of up to maxOpen bytes.
// parseTerms is its inverse; without the option any length is accepted.
func formatTerms(maxOpen int) string {
	return linkVersion + "; " + maxOpenOption + strconv.Itoa(maxOpen)
}

func parseTerms(value string) (maxOpen int, ok bool) {
	version, options, _ := strings.Cut(value, ";")
	ok = strings.TrimSpace(version) == linkVersion
	number, given := strings.CutPrefix(strings.TrimSpace(options), maxOpenOption)
	if !given {
		return math.MaxInt, ok
	}
	maxOpen, err := strconv.Atoi(number)
	if err != nil || maxOpen < 0 {
		maxOpen = math.MaxInt
	}
	return maxOpen, ok
}

// isPeerCoding reports whether the codings named by a client or an upstream include the one that gateways exchange.
func isPeerCoding(codings []string) bool {
	return strings.Contains(strings.ToLower(strings.Join(codings, ",")), lanesCoding)
}

// setCoding sets the Content-Encoding field; "" removes it.
func setCoding(h http.Header, coding string) {
	if coding == "" {
		delete(h, "Content-Encoding")
		return
	}
	h["Content-Encoding"] = []string{coding}
}

// deletePeerFields deletes the fields that only gateways may send.
func deletePeerFields(h http.Header) {
	delete(h, linkHeader)
	delete(h, codingHeader)
	delete(h, lanes.Header)
	delete(h, lanes.OpenedHeader)
}
