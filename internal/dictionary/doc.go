// Package dictionary manages the dictionaries of rules with "dictionary: auto": it samples values that pass,
// trains in the background, rolls out dictionaries that save enough, and detects when one no longer fits.
//
//	metrics.go    Prometheus metrics
//	messagestats.go  statistics of messages on a wire
//	messages.go   dictionaries for such messages, with nothing durable
//	trainonce.go  training for a job that walks a store once
//	manager.go    one gateway: reads records, trains, rolls out, adopts
//	renew.go      a training and its rollout
//	activepolicy.go  the policy in force; never calls the store
//	logins.go     samples and dictionaries of each login of a rule
//	managedrule.go  one rule, for one login: its parts
//	rollout.go    the steps of a rollout, see below, and the record shared with other gateways
//	publisher.go  the policy record, for libraries that compress by themselves
//	rulestats.go  status of a rule's dictionaries, for people
//	trainer.go    trains, judges and chooses dictionaries; one training at a time in a process
//	options.go    options of all of these
//	record.go     the record of a rule that the gateways of a store share
//	drift.go      whether values still fit, and how many there are
//	schedule.go   when to train; pure
//	sampler.go    called on the data path: one counter, and rarely a copy
//	reservoir.go  a uniform sample of a stream within a number of bytes
//
// A rollout takes steps. After each, the store is readable for every reader:
//
//	lease       the record says who trains, so that mostly one gateway does
//	name        the record names the dictionary to come, so that it is never forgotten
//	publish     the dictionary is in the store and was read back
//	announce    the record names it as the current one
//	use         the policy names it; values do as soon as the store says it is ready
//
// Nothing is undone when a step fails: the lease expires, and the dictionary stays.
package dictionary
