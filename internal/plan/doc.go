// Package plan finds out what compression would do to values that exist: it samples a
// source, groups what it finds, measures every candidate setting on each group with the
// code that seals and opens in production, prices the results, and recommends.
//
// A plan goes through these files, in this order:
//
//	files.go, documents.go, keys.go, tuples.go                sources: where values come from
//	mongo.go, exchange.go, messages.go                        likewise of messages
//	collect.go, pattern.go, place.go, shape.go, group.go      groups, found on the way, and their samples
//	alike.go                                                  what of them is one
//	candidate.go, measure.go, train.go                        what each setting makes of a sample
//	rates.go, link.go, choose.go, balance.go                  latency, money, the front, one recommendation
//	report.go, unmeasured.go, text.go, html.go, write.go      what comes out
//
// Memory is bounded by Options.SampleBytes and the number of groups, whatever the source
// holds. Values are forgotten when the plan is done; the report holds numbers and patterns
// of names only.
package plan
