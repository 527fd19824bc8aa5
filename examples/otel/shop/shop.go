// Package shop defines the data that the example's senders send, so that the receiver can check it: each
// value follows from the number of its span, log record or series, and from the round. python/sender.py and
// node/sender.mjs compute the same values.
package shop

import "fmt"

// The amount of data in a round.
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

// Route returns the route of a request.
func Route(n int64) string { return routes[n%int64(len(routes))] }

// Code returns the status of a request.
func Code(n int64) int64 { return codes[n/8%int64(len(codes))] }

// Pod returns the pod that answers a request.
func Pod(n int64) string { return fmt.Sprintf("api-%d", n/32%3) }

// User returns the user of a request.
func User(n int64) int64 { return n * 7919 % 100003 }

// Text returns the log line of a request.
func Text(n int64) string {
	return fmt.Sprintf("order %d of user %d: %s answered %d after %d ms", n, User(n), Route(n), Code(n), Millis(n, 0))
}

// Grows returns by how much a counter grows in a round.
func Grows(series, round int64) int64 { return 1 + (series*7+round*13)%10 }

// Millis returns the value that a histogram records in a round.
func Millis(series, round int64) int64 { return (series*31 + round*17) % 1000 }
