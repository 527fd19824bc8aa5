package peer

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Lengths in bytes.
const (
	NonceLen = 16
	ProofLen = sha256.Size
)

// Side is the role of a gateway in a link: the near one has connected to the far one.
type Side string

// The values of Side.
const (
	Near Side = "near"
	Far  Side = "far"
)

// KeyProof returns the proof that one side of a link has the key. It covers both hellos, without the last ProofLen
// bytes of the far gateway's, which are its own proof.
func KeyProof(key []byte, side Side, near, far Hello) []byte {
	m := hmac.New(sha256.New, key)
	b := far.Append(near.Append([]byte(side)))
	m.Write(b[:len(b)-ProofLen])
	return m.Sum(nil)
}

// AppendProof appends the near gateway's PROOF frame.
func AppendProof(dst, key []byte, near, far Hello) []byte {
	return append(append(dst, byte(Proof)), KeyProof(key, Near, near, far)...)
}
