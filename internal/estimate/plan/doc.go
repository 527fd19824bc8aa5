// Package plan estimates what compression would do to existing values: it samples a source, groups the
// values, measures every candidate setting on each group with the code that runs in production, prices the
// results, and recommends.
//
// Its files, from high to low:
//
//	plan.go, messages.go        a plan from a collected sample, or from a running gateway's measurements
//	ratesprompt.go              asks the user for rates
//	redis.go, tarantool.go, mongo.go, files.go, fileformats.go   sources of values and messages
//	choose.go, balance_score.go                                  the Pareto front, one recommendation
//	measure.go, train.go, codecmemory.go                         measuring each setting on a sample
//	text.go, html.go, write.go, createdfiles.go, unmeasured.go   output
//	telemetry.go                telemetry that a gateway has sampled, and its costs between zones
//	report.go                   the plan as a value, with the figures of each group
//	rates.go                    operations per second
//	foreign.go                  values that clients' libraries have compressed
//	collect.go, similar.go      groups, found while reading; merging similar ones
//	planner.go, options.go, words.go                             what the files above share
//	candidate.go                the settings to measure
//	shape.go                    documents by their keys
//	mongoexchange.go            MongoDB's messages
//	link.go                     networks
//	pattern.go, patterntree.go  names by pattern
//	group.go, openedsample.go   a group and its sample; a decompressed sample
//	document_range.go           a group of messages with an unknown number of documents
//
// Memory is limited by Options.SampleBytes, the number of groups and what is decompressed of one at a time,
// whatever the source holds. Values are dropped when the plan is done; the report holds only numbers and
// patterns of names.
package plan
