package mask

import (
	"crypto/sha256"
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
	text := make([]byte, 0, len(k.secret)+1+len(salt)+4*len(of))
	text = append(append(append(text, k.secret[:]...), round), salt...)
	for _, d := range of {
		text = binary.LittleEndian.AppendUint32(text, d.value)
	}
	return rand.New(rand.NewChaCha8(sha256.Sum256(text)))
}
