// Package plan estimates what compression would do to existing values: it samples a source, groups the
// values, measures every candidate setting on each group with the code that runs in production, prices the
// results, and recommends.
//
// Its files, from high to low:
//
//	messages.go, plan.go, ratesprompt.go               a plan from a gateway's measurements, or from what was collected
//	tarantool.go, redis.go, mongo.go, files.go, fileformats.go  sources of values and messages
//	choose.go, balance.go                              the Pareto front, one recommendation
//	train.go, codecmemory.go, measure.go               measuring each setting on a sample
//	createdfiles.go, html.go, write.go, text.go, unmeasured.go output
//	rates.go, report.go, foreign.go                    rates; the figures of a group; values that libraries compressed
//	similar.go, collect.go                               groups, found while reading: merging similar ones
//	planner.go, options.go, words.go                   what the files above share
//	shape.go, candidate.go, mongoexchange.go, link.go  documents by their keys; settings; MongoDB's messages; networks
//	patterntree.go, pattern.go, openedsample.go, group.go, range.go  names by pattern; a decompressed sample; a group and its
//	                                                   sample; a group of messages with an unknown number of documents
//
// Memory is limited by Options.SampleBytes, the number of groups and what is decompressed of one at a time,
// whatever the source holds. Values are dropped when the plan is done; the report holds only numbers and
// patterns of names.
package plan
