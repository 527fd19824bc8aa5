// Package history is version 2 of the encoding cinch-proto: messages of Protocol Buffers that are sent one
// after another over a link, split using what both ends remember of the previous ones. docs/PROTO.md
// specifies the format and defines the terms used here.
//
//	var w history.Writer                  // one end of a link
//	sent := w.Append(nil, message)        // cannot fail
//	var r history.Reader                  // the other end, which gets all that is sent, in order
//	message, err := r.Append(nil, sent, maxSize)
//
// The output is for a link that compresses with a history of its own: text is left to that.
//
// In reading order:
//
//	memory.go     memory use of both ends of a session
//	writer.go     the output for a message; reader.go is the inverse
//	frame.go      forms, limits and errors
//	encode.go     runs of values that may be named, which distinguish messages, then the rest
//	encode_records.go
//	              messages that recur with other numbers
//	decode.go     the inverse, with decode_records.go
//	scan.go       fields of one level, and their shape
//
// What both sides do and learn in the same way:
//
//	walk.go       common parts of going through a message
//	operation.go  how a value that was not guessed is given
//	guess.go      guessing values and lists
//	records.go    messages that recur; steps.go: their parts
//	series.go     numbers; pbwire/numbers.go: those with few decimal digits
//	values.go     values and lists that may be named
//	clock.go      forgetting values, lists and records
//	model.go      nodes and shapes
//	sizes.go      the lengths of numbers
//	coder.go      bits
//	memo.go       lookup by hash
//
// A change there changes the format. Nothing here is safe for concurrent use.
package history
