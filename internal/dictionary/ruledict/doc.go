// Package ruledict finds dictionaries for one walk over a store that compresses under rules with `dictionary:
// auto`: those that gateways have made, or new ones trained on the stored values.
//
//	choose.go    choosing a dictionary for each rule
//	recorded.go  dictionaries that gateways have recorded
//	train.go     a separate walk for samples, and training
package ruledict
