// Package plan estimates what compression would do to existing values: it samples a source, groups the
// values, measures every candidate setting on each group with the code that runs in production, prices the
// results, and recommends.
//
// Its files, from high to low:
//
//	messages.go, plan.go        a plan from a running gateway's measurements, or from a collected sample
//	ratesprompt.go              asks the user for rates
//	tarantool.go, redis.go, mongo.go, files.go, fileformats.go   sources of values and messages
//	choose.go                                                    the Pareto front, one recommendation
//	train.go, codecmemory.go, measure.go                         measuring each setting on a sample
//	createdfiles.go, html.go, text.go, unmeasured.go             output
//	rates.go                    operations per second
//	report.go                   the plan as a value, with the figures of each group
//	foreign.go                  values that clients' libraries have compressed
//	similar.go, collect.go      groups, found while reading; merging similar ones
//	options.go, format.go       what the files above share; numbers for people
//	writeconfig.go              the recommendations as a configuration
//	shape.go                    documents by their keys
//	candidate.go, sealer.go     the settings to measure, and compressing with one
//	mongomodel.go, mongoexchange.go   MongoDB's messages: modelled from documents; compressed
//	telemetry.go                telemetry between two places: ways to send all of it
//	link.go                     networks
//	patterntree.go, pattern.go  names by pattern
//	openedsample.go, group.go   a decompressed sample; a group and its sample
//	document_range.go           a group of messages with an unknown number of documents
//
// Memory is limited by Options.SampleBytes, the number of groups and what is decompressed of one at a time,
// whatever the source holds. Values are dropped when the plan is done; the report holds only numbers and
// patterns of names.
package plan
