// Package codec holds Cinch's compression algorithms behind one pair of
// append-style functions.
//
// An [ID] names an algorithm a reader must know; a [Setting] is what a writer
// chose (algorithm, level, dictionary). An [Engine] compresses and
// decompresses by them with a bounded number of states. Everything works on
// whole values in memory and starts no goroutines. Streams with history, for two
// peers that both keep a state, are [StreamWriter] and [StreamReader].
//
// Payloads carry neither their algorithm nor their raw length: the envelope
// around them does. Decompression takes the raw length from there, allocates
// no more than it, and refuses any payload that gives another length.
//
// The package needs no cgo. Package libzstd, a module of its own, provides a
// faster [Zstd] that is handed over in [Options].
package codec
