// Package plan finds out what compression would do to values that exist: it samples a
// source, groups what it finds, measures every candidate setting on each group with the
// code that seals and opens in production, prices the results, and recommends.
//
// Its files, from high to low:
//
//	messages.go, plan.go, ask.go                              a plan of what a gateway has measured, and of what was collected
//	tuples.go, files.go, documents.go, mongo.go, keys.go      sources: where values and messages come from
//	choose.go, balance.go                                     the front, one recommendation
//	train.go, memory.go, measure.go                           what each setting makes of a sample
//	made.go, html.go, write.go, text.go, unmeasured.go        what comes out
//	rates.go, report.go, foreign.go                           how often what is done; all that is known of a group; what libraries have compressed
//	alike.go, collect.go                                      groups, found on the way: what of them is one
//	planner.go, options.go, words.go                          what the files above share
//	shape.go, candidate.go, exchange.go, link.go              documents by their keys; settings; messages; networks
//	place.go, pattern.go, opened.go, group.go                 names by their patterns; a sample that was opened; a group and its sample
//
// Memory is bounded by Options.SampleBytes, the number of groups and what is opened of one at a time, whatever
// the source holds. Values are forgotten when the plan is done; the report holds numbers and patterns
// of names only.
package plan
