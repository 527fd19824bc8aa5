// Package proto is the encoding cinch-proto: messages of Protocol Buffers, split into columns without a
// schema before a general codec compresses them. docs/PROTO.md specifies the format and defines the terms
// used here.
//
//	e := proto.NewEncoder(proto.Options{})
//	sealed := e.Append(nil, message)      // cannot fail; plain where columns gain nothing
//	d := proto.NewDecoder(proto.Options{})
//	message, err := d.Append(nil, sealed, maxSize)
//
// The stages of encoding:
//
//	message -> scan.go    fields of one level, and the shape that they make
//	           encode.go  runs of fields, values named or given in full
//	           number.go  numbers
//	        -> columns    operations, shapes, references, counts, kinds, numbers, text
//	        -> frame.go   sections, each compressed by the general codec
//
// decode.go is the inverse. model.go has what both sides learn while processing a message, from the same data
// at the same time; a change there changes the format.
//
// Package history is version 2, for messages that are sent over one link.
//
// Package codec/grpccodec limits how many encoders and decoders are in use.
package proto
