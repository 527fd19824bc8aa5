// Package mongo parses and builds the messages of MongoDB's wire protocol that a gateway must look into:
// headers, OP_MSG, the OP_QUERY and OP_REPLY of old handshakes, and OP_COMPRESSED. It turns bytes into spans
// and back, without connections and codecs. Everything it returns refers to the bytes that it was given.
//
//	message:        length(4) requestID(4) responseTo(4) opcode(4) body…
//	OP_MSG:         flags(4) section… [checksum(4)]
//	  section 0:    0(1) document
//	  section 1:    1(1) size(4) identifier\0 document…
//	OP_COMPRESSED:  original opcode(4) uncompressed size(4) compressor(1) bytes…
//	OP_QUERY:       flags(4) collection\0 skip(4) return(4) document [document]
//	OP_REPLY:       flags(4) cursor(8) from(4) number(4) document…
//
// All numbers are little endian. A length includes itself, and a message's length its header; the
// uncompressed size does not include the header.
//
// The parsers are as strict as mongod: if a parser disagrees with the server about where a message or a
// section ends, a client can smuggle one past it. Declared lengths are checked against limits before memory
// is allocated for them.
package mongo
