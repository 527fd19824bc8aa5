// Package history is version 2 of the encoding cinch-proto: messages of Protocol Buffers that go over one link after another,
// taken apart with what both ends remember of those before. docs/PROTO.md has the format, and its words are the ones used here.
//
//	var w history.Writer                  // one end of a link
//	sent := w.Append(nil, message)        // cannot fail
//	var r history.Reader                  // the other end, which gets all that is sent, in order
//	message, err := r.Append(nil, sent, maxSize)
//
// What is sent is for a link that compresses with a history of its own: text is left to that.
//
// In reading order:
//
//	memory.go     what ends of a session hold
//	writer.go     what is sent for a message, and reader.go the way back
//	frame.go      forms, limits and errors
//	encode.go     runs of values that may be named, which tell a message from others, then the rest
//	encode_records.go
//	              messages that come again with other numbers
//	packed.go     values that are numbers
//	decode.go     the way back, and decode_records.go
//	scan.go       fields of one level, and the shape that they make
//
// What both sides do and learn alike:
//
//	walk.go       what they share on their way through a message
//	operation.go  how a value is given that was not guessed
//	guess.go      how values and lists are guessed
//	records.go    messages that come again, and steps.go what they are made of
//	series.go     numbers, and decimal.go those that people write
//	values.go     values and lists that may be named
//	clock.go      how those and records are forgotten
//	model.go      nodes and shapes
//	sizes.go      how long numbers are
//	coder.go      bits
//	memo.go       what is known by hashes
//
// A change there changes the format. Nothing here is safe for concurrent use.
package history
