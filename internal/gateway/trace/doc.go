// Package trace makes OpenTelemetry spans for a share of the requests of a gateway: how long it read, waited
// and compressed, and how long its upstream took.
//
//	tracer.go   which requests are traced, and where their spans go
//	request.go  a traced request and its spans
//	command.go  a request whose reply is handled by another goroutine
//	exporter.go sends batches of spans and counts the results
//	otlp.go     the client of a collector: OTLP over HTTP
//
// A nil *Tracer traces nothing, and all methods work on a nil *Request or *Command, so that callers need not
// check. Spans contain nothing that a user has written: no key, no value, no collection, no address of a
// client.
//
// If a request carries a trace context (W3C Trace Context, section 3.2), the client's sampling decision holds. Of the
// requests without a context a random share is traced. The number of traced requests per second is limited. The
// gateway's spans are children of the client's, and the upstream gets the gateway's span as parent. A request that
// is not traced is forwarded with its context unchanged.
//
// Names and attributes follow OpenTelemetry's semantic conventions 1.37 where those define them; Cinch's own
// begin with "cinch.".
package trace
