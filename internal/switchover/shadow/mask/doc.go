// Package mask makes values unreadable but keeps their kind and length: equal values stay equal, different
// ones stay different. It applies a permutation determined by a key that is kept only in memory.
//
// Reading order: mask.go (what can be masked), feistel.go (how).
package mask
