// Package autodict manages the dictionaries of rules with "dictionary: auto": it samples values that pass,
// trains in the background, rolls out dictionaries that save enough, and detects when one no longer fits.
//
//	metrics.go    what can be seen of all this
//	wire.go       for messages on a wire: what is known of them
//	messages.go   dictionaries for these, with nothing durable
//	once.go       for a job that goes over a store once
//	manager.go    one gateway: looks at records, trains, rolls out, adopts
//	renew.go      a training and what becomes of it
//	inforce.go    which policy is in force; asks no store
//	logins.go     samples and dictionaries of each login of a rule
//	managed.go    one rule, for one login: its parts
//	rollout.go    the steps of a rollout, see below, and what other gateways announce
//	tally.go      what a rule's dictionaries have come to, for people
//	trainer.go    what to roll out: trains, judges, chooses; one at a time in a process
//	options.go    what all of these are told
//	record.go     what the gateways of a store tell each other about a rule
//	drift.go      whether values still fit, and how many there are
//	schedule.go   when to train; pure
//	sampler.go    what the data path calls: one counter, and rarely a copy
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
package autodict
