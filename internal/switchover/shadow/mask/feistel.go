package mask

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"math/rand/v2"
)

// A value is a row of digits, each with its own radix. It is permuted by a Feistel network: in turns, a keyed
// hash of one half is added to the other half.
//
//	left, right -> left + hash(1, right), right -> ..., right + hash(2, left) -> ...

// digit is a digit, below its radix.
type digit struct{ value, radix uint32 }

// rounds of the network: four make a permutation that can't be distinguished from a random one.
const rounds = 4

// permute changes a row of digits in place. The result also depends on salt.
func (k *Key) permute(row []digit, salt []byte) {
	if len(row) == 1 {
		d := &row[0]
		d.value = uint32(k.stream(0, salt, nil).Perm(int(d.radix))[d.value])
		return
	}
	left, right := row[:len(row)/2], row[len(row)/2:]
	for round := range byte(rounds) {
		k.mix(left, right, round, salt)
		left, right = right, left
	}
}

// permuteBytes changes bytes in place. It is much faster than permute with digits of radix 256.
func (k *Key) permuteBytes(row, salt []byte) {
	if len(row) == 1 {
		row[0] = byte(rand.New(k.source(0, salt, nil)).Perm(256)[row[0]])
		return
	}
	left, right := row[:len(row)/2], row[len(row)/2:]
	hash := make([]byte, len(right))
	for round := range byte(rounds) {
		_, _ = k.source(round, salt, right).Read(hash[:len(left)]) // never fails
		subtle.XORBytes(left, left, hash)
		left, right = right, left
	}
}

// mix adds a hash of src to dst.
func (k *Key) mix(dst, src []digit, round byte, salt []byte) {
	by := k.stream(round, salt, src)
	for i := range dst {
		d := &dst[i]
		d.value = (d.value + by.Uint32N(d.radix)) % d.radix
	}
}

// stream returns pseudo-random numbers that depend on the key, the round, salt and digits.
func (k *Key) stream(round byte, salt []byte, of []digit) *rand.Rand {
	src := make([]byte, 0, 4*len(of))
	for _, d := range of {
		src = binary.LittleEndian.AppendUint32(src, d.value)
	}
	return rand.New(k.source(round, salt, src))
}

// source returns pseudo-random bytes that depend on the key, the round, salt and src.
func (k *Key) source(round byte, salt, src []byte) *rand.ChaCha8 {
	text := make([]byte, 0, len(k.secret)+1+len(salt)+len(src))
	text = append(append(append(append(text, k.secret[:]...), round), salt...), src...)
	return rand.NewChaCha8(sha256.Sum256(text))
}
