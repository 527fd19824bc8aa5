// Package compute answers commands of Redis from values alone: nothing in it knows of connections,
// sessions or policies.
//
//	answer.go    STRLEN, GETRANGE … : what the server would reply, from the opened value
//	bits.go      GETBIT, BITCOUNT, BITPOS
//	bitfield.go  BITFIELD_RO
//	sort.go      what SORT's options mean for values
//	magic.go     which commands may leave, or were given, what begins like an envelope
package compute
