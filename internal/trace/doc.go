// Package trace makes OpenTelemetry spans of a share of the requests that pass a gateway: how long it read, waited, compressed,
// and how long its upstream took.
//
//	tracer.go   which requests are traced, and where their spans go
//	request.go  one of them and its spans
//	command.go  one whose request and reply are carried by different goroutines
//	counts.go   how many spans were sent, and how many were not
//
// A nil *Tracer traces nothing, and a nil *Request or *Command takes everything that a traced one does, so that who serves a request need
// not ask. Nothing that a user has written is in a span: no key, no value, no collection, no
// address of a client.
//
// Which requests: those whose client has sampled them, where the protocol carries that (W3C Trace Context, section 3.2), and of
// the others a share by chance; never more than a bound in a second. The gateway's spans are children of the client's, and the
// upstream hears of the gateway's. A request that is not traced is passed on as it came, with the context that it has.
//
// Names and attributes are those of OpenTelemetry's semantic conventions 1.37 where they have one; ours begin with "cinch.".
package trace
