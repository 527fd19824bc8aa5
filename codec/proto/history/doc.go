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
// What goes through:
//
//	message -> scan.go     fields of one level, and the shape that they make
//	           encode.go   runs of values that may be named, which tell a message from others, then the rest
//	        -> coder.go    bits
//
// decode.go is the way back. What both sides do and learn alike is in
//
//	model.go      nodes and shapes
//	walk.go       what they share on their way through a message
//	values.go     values and lists that may be named, and how they are forgotten
//	guess.go      how those are guessed
//	operation.go  how one is given that was not guessed
//	series.go     numbers, and decimal.go those that people write
//	sizes.go      how long numbers are
//	memo.go       what is known by hashes
//
// and a change there changes the format. Nothing here is safe for concurrent use.
package history
