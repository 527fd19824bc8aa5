package pairs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec/codectest"
)

// sequence holds the exchanges of some clients, which run at the same time.
type sequence struct {
	seed    uint64
	style   string // for the log
	clients [][]exchange
	warm    int // exchanges of each client that come before all others, and are not counted

	coding  string // with which clients compress their requests; "": none
	chunked bool   // HTTP: bodies have no length
	http2   bool   // HTTP: version 2 on both sides
	stream  bool   // gRPC: the exchanges of a client are one call
	proto   bool   // gRPC: the first rule says cinch-proto
	atOnce  int    // exchanges of a client that run at the same time, with HTTP/2
}

// exchange is a request and its reply.
type exchange struct {
	contentType    string
	request, reply []byte
}

// Limits of a sequence, in bytes of all messages, and in exchanges.
const (
	maxBytes     = 5 << 20
	maxExchanges = 60
)

// A link begins with a history of firstWindowBytes. After the exchanges of a warm-up it has the longest one.
const (
	firstWindowBytes = 128 << 10
	warmExchanges    = 2
	warmBytes        = 3 << 19
)

// sizes are ranges of lengths.
var sizes = []struct {
	name     string
	from, to int
}{
	{"tiny", 0, 100},
	{"small", 50, 2_000},
	{"medium", 1_000, 60_000},
	{"piece", 65_000, 66_000},
	{"large", 60_000, 600_000},
	{"long", 1 << 20, 3 << 20},
	{"any", 0, 300_000},
}

// allCodings are the codings that clients of HTTP and gRPC use.
var allCodings = []string{"gzip", "zstd", "snappy"}

// draw returns the sequence that a seed determines. Its coding is one of codings, or none.
func draw(seed uint64, codings []string) *sequence {
	r := rand.New(rand.NewPCG(seed, 38))
	oneIn := func(n int) bool { return r.IntN(n) == 0 }
	s := &sequence{seed: seed, chunked: oneIn(4), http2: oneIn(2), stream: oneIn(4), proto: oneIn(2), atOnce: 1}
	if oneIn(4) {
		if coding := allCodings[r.IntN(len(allCodings))]; slices.Contains(codings, coding) {
			s.coding = coding
		}
	}
	if oneIn(4) {
		s.atOnce = 2 + r.IntN(6)
	}
	var mix []kind
	var names []string
	for range 1 + r.IntN(3) {
		k := kinds[r.IntN(len(kinds))]
		mix, names = append(mix, k), append(names, k.name)
	}
	requests, replies := sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))]
	switch r.IntN(4) { // most traffic has long messages in one direction
	case 0:
		requests = sizes[r.IntN(2)]
	case 1:
		replies = sizes[r.IntN(2)]
	}
	again := []float64{0, 0, 0.3, 0.9}[r.IntN(4)] // share of messages that repeat an earlier one
	var before [][]byte
	message := func(k kind, from, to int) []byte {
		if r.Float64() < again && len(before) > 0 {
			return before[r.IntN(len(before))]
		}
		m := k.make(r, from+r.IntN(to-from+1))
		before = append(before, m)
		return m
	}
	s.clients = make([][]exchange, []int{1, 1, 2, 3}[r.IntN(4)])
	for n, total := 0, 0; n < maxExchanges && total < maxBytes; n++ {
		k := mix[r.IntN(len(mix))]
		x := exchange{k.contentType, message(k, requests.from, requests.to), message(k, replies.from, replies.to)}
		total += len(x.request) + len(x.reply)
		c := r.IntN(len(s.clients))
		s.clients[c] = append(s.clients[c], x)
	}
	if s.longest() > firstWindowBytes && !oneIn(3) {
		s.warm = warmExchanges
		for c, exchanges := range s.clients {
			var warm []exchange
			for range warmExchanges {
				warm = append(warm, exchange{"text/plain", codectest.JSON(warmBytes, r.Uint64()), codectest.JSON(warmBytes, r.Uint64())})
			}
			s.clients[c] = append(warm, exchanges...)
		}
	}
	s.style = fmt.Sprintf("%s, requests %s, replies %s, %.0f %% again, %d clients", strings.Join(names, "+"), requests.name, replies.name, again*100, len(s.clients))
	return s
}

// options returns the other properties as text, for the log.
func (s *sequence) options() (text string) {
	if s.coding != "" {
		text += ", sent as " + s.coding
	}
	for name, set := range map[string]bool{"chunked": s.chunked, "HTTP/2": s.http2, "stream": s.stream, "proto": s.proto} {
		if set {
			text += ", " + name
		}
	}
	if s.isCold() {
		text += ", cold"
	}
	return text + fmt.Sprintf(", %d at once", s.atOnce)
}

// isCold reports whether links still have short histories when they carry long messages.
func (s *sequence) isCold() bool { return s.warm == 0 && s.longest() > firstWindowBytes }

// messages returns the number of messages that are counted. A long one counts several times: a link sends it in pieces.
func (s *sequence) messages() (n int) {
	for _, c := range s.clients {
		for _, x := range c[s.warm:] {
			n += 2 + (len(x.request)+len(x.reply))/pieceBytes
		}
	}
	return n
}

// longest returns the length of the longest message that is counted.
func (s *sequence) longest() (n int) {
	for _, c := range s.clients {
		for _, x := range c[s.warm:] {
			n = max(n, len(x.request), len(x.reply))
		}
	}
	return n
}
