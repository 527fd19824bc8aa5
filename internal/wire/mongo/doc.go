// Package mongo cuts MongoDB's wire protocol into messages and takes apart what a gateway
// has to look at: headers, OP_MSG, the OP_QUERY and OP_REPLY of old handshakes, and
// OP_COMPRESSED. It turns bytes into spans and back and knows nothing of connections or of
// codecs. Everything it returns refers to the bytes that it was given.
//
//	message:        length(4) requestID(4) responseTo(4) opcode(4) body…
//	OP_MSG:         flags(4) section… [checksum(4)]
//	  section 0:    0(1) document
//	  section 1:    1(1) size(4) identifier\0 document…
//	OP_COMPRESSED:  original opcode(4) uncompressed size(4) compressor(1) bytes…
//	OP_QUERY:       flags(4) collection\0 skip(4) return(4) document [document]
//	OP_REPLY:       flags(4) cursor(8) from(4) number(4) document…
//
// Two gateways have frames of their own between these; see paired.go.
//
// All numbers are little endian. A length counts itself, and a message's counts its header;
// the uncompressed size does not.
//
// The parsers are as strict as mongod: a parser that disagrees with the server about where a
// message or a section ends can be made to smuggle one. Declared lengths are checked against limits
// before anybody allocates by them.
package mongo
