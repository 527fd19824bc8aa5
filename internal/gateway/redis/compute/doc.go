// Package compute answers commands of Redis from values alone. It does not know connections, sessions or
// policies.
//
//	answer.go    STRLEN, GETRANGE … : the server's reply, from the decompressed value;
//	             which commands may create, or carry, bytes that begin like an envelope
//	bits.go      GETBIT, BITCOUNT, BITPOS
//	bitfield.go  BITFIELD_RO
//	sort.go      what SORT's options mean for values
package compute
