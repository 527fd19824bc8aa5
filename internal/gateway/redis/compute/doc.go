// Package compute answers Redis commands from their arguments and the plain value. It knows no connections, sessions
// or policies.
//
//	answer.go    STRLEN, GETRANGE … : the server's reply, from the decompressed value;
//	             which commands may create, or carry, bytes that begin like an envelope
//	bits.go      GETBIT, BITCOUNT, BITPOS
//	bitfield.go  BITFIELD_RO
//	sortoptions.go      parses SORT's options
package compute
