// Package mask makes values unreadable so that they stay what they were in kind and length: equal values stay equal, others stay
// apart. It is a permutation by a key that is kept nowhere.
//
// Reading order: mask.go (what can be masked), digits.go (how).
package mask
