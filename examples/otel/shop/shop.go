// Package shop is what the senders of the example tell, so that the receiver knows what should come: each number follows from that
// of its span, log record or series, and the round. python/sender.py and node/sender.mjs count alike.
package shop

import "fmt"

// What a round has.
const (
	Spans    = 200
	Logs     = 200
	Counters = 96
	Latency  = 16 // histograms
)

var (
	routes = []string{"/", "/product/{id}", "/cart", "/cart/checkout", "/search", "/account", "/orders/{id}", "/health"}
	codes  = []int64{200, 200, 404, 500}
)

// Route is that of a request.
func Route(n int64) string { return routes[n%int64(len(routes))] }

// Code is its status.
func Code(n int64) int64 { return codes[n/8%int64(len(codes))] }

// Pod is the one that answers it.
func Pod(n int64) string { return fmt.Sprintf("api-%d", n/32%3) }

// User is whose request it is.
func User(n int64) int64 { return n * 7919 % 100003 }

// Text is what the log says of it.
func Text(n int64) string {
	return fmt.Sprintf("order %d of user %d: %s answered %d after %d ms", n, User(n), Route(n), Code(n), Millis(n, 0))
}

// Grows is by how much a counter grows in a round.
func Grows(series, round int64) int64 { return 1 + (series*7+round*13)%10 }

// Millis is what a histogram takes in a round.
func Millis(series, round int64) int64 { return (series*31 + round*17) % 1000 }
