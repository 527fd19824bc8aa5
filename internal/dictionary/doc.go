// Package dictionary manages the dictionaries of rules with "dictionary: auto": it samples values that pass,
// trains in the background, rolls out dictionaries that save enough, and detects when one no longer fits.
//
//	metrics.go          Prometheus metrics
//	trainonce.go        training for a job that walks a store once
//	manager.go          one gateway: reads records, trains, rolls out, adopts
//	renew.go            a training and its rollout
//	activepolicy.go     the policy in force; never calls the store
//	perlogin.go         samples and dictionaries of each login of a rule
//	managedrule.go      one rule, for one login: its parts
//	rollout.go          the steps of a rollout, see below, and the record shared with other gateways
//	policypublisher.go  the policy record, for libraries that compress by themselves
//	rulestats.go        status of a rule's dictionaries, for people
//	oncelogger.go       troubles with the store, each logged once
//	trainer.go          trains dictionaries, one training at a time in a process
//	search.go           one training: candidates, compared by the bytes that the store would hold
//	find.go             one training for a sample, without a store
//	options.go          options of all of these
//	record.go           the record of a rule that the gateways of a store share
//	monitor.go          whether values still fit the dictionary
//	volume.go           how many bytes a dictionary would save on
//	schedule.go         when to train; reads no clock and does no I/O
//	reservoir           the samples, below: a uniform sample of a stream within a number of bytes
//
// A rollout takes steps. After each, the store is readable for every reader:
//
//	lease       the record names the gateway that trains, so that usually only one does
//	name        the record names the new dictionary before it is stored, so that it names every stored dictionary
//	publish     the dictionary is in the store and was read back
//	announce    the record names it as the current one
//	use         the policy names it; values name it as soon as the store reports that it is ready
//
// Nothing is undone when a step fails: the lease expires, and the dictionary stays.
package dictionary
