// Package codec provides Cinch's compression algorithms as one pair of append-style functions.
//
// An [ID] identifies an algorithm, which a reader must know; a [Setting] is what a writer chose (algorithm,
// level, dictionary). An [Engine] compresses and decompresses whole values in memory, with a limited number of
// states and without goroutines. It also makes three kinds of writers:
//
//   - [FrameWriter] compresses a value while it arrives.
//   - [ContentWriter] compresses content of unknown length, such as an HTTP body.
//   - [StreamWriter], with its [StreamReader], compresses messages with the history of those before, for two
//     peers that both keep a state.
//
// Payloads carry neither their algorithm nor their raw length: the envelope around them does. Decompression
// takes the raw length from there, allocates no more than that and a small constant, and rejects any payload
// of another length.
//
// The package needs no cgo. Package libzstd, a module of its own, provides a faster [Zstd] to pass in
// [Options].
package codec
