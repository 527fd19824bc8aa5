// Package ruledict finds the dictionaries that one walk over a store seals with under rules with
// `dictionary: auto`: those that gateways have made for what the store holds, or new ones of what lies there.
//
//	choose.go    which rules get which
//	recorded.go  what gateways have recorded
//	train.go     a walk of its own, for samples to train of
package ruledict
