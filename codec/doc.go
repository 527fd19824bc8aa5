// Package codec provides Cinch's compression algorithms as one pair of append-style functions.
//
// An [ID] identifies an algorithm, which a reader must know; a [Setting] is what a writer chose (algorithm,
// level, dictionary). An [Engine] compresses and decompresses with a limited number of states. Everything
// works on whole values in memory and starts no goroutines. [StreamWriter] and [StreamReader] are streams
// with history, for two peers that both keep a state.
//
// Payloads carry neither their algorithm nor their raw length: the envelope around them does. Decompression
// takes the raw length from there, allocates no more than that, and rejects any payload of another length.
//
// The package needs no cgo. Package libzstd, a module of its own, provides a faster [Zstd] to pass in
// [Options].
package codec
