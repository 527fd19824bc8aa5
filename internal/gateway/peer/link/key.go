package link

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// errKey is wrapped by all errors for which two gateways make no link because of a key.
var errKey = errors.New("link: both gateways need the same peer_key_file")

func newNonce() string {
	b := make([]byte, wire.NonceLen)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// checkNonce returns an error unless the hello of a near gateway has a nonce if, and only if, this gateway has a key.
func (e *Endpoint) checkNonce(near wire.Hello) error {
	nonce, given := near.Find(wire.Key)
	switch {
	case given && e.cfg.Key == nil:
		return fmt.Errorf("%w: this one has none", errKey)
	case !given && e.cfg.Key != nil:
		return fmt.Errorf("%w: the near one has none", errKey)
	case given && len(nonce) != wire.NonceLen:
		return fmt.Errorf("%w: a nonce of %d bytes", wire.ErrMalformed, len(nonce))
	}
	return nil
}

// prove adds a nonce and the far gateway's proof to its answer.
func prove(key []byte, near, far wire.Hello, nonce string) wire.Hello {
	far.Extensions = wire.AppendExtension(far.Extensions, wire.Key, nonce+string(make([]byte, wire.ProofLen)))
	far.Extensions = far.Extensions[:len(far.Extensions)-wire.ProofLen] + string(wire.KeyProof(key, wire.Far, near, far))
	return far
}

// checkFar returns an error unless the answer of the far gateway proves that it has the key.
func checkFar(key []byte, near, far wire.Hello) error {
	content, _ := far.Find(wire.Key)
	if len(content) != wire.NonceLen+wire.ProofLen {
		return fmt.Errorf("%w: the far one does not prove that it has one", errKey)
	}
	proof := far.Extensions[len(far.Extensions)-wire.ProofLen:]
	if !hmac.Equal([]byte(proof), wire.KeyProof(key, wire.Far, near, far)) {
		return fmt.Errorf("%w: the far one has another", errKey)
	}
	return nil
}

// checkNear reads the proof of the near gateway from c.
func checkNear(key []byte, near, far wire.Hello, c io.Reader) error {
	var b [1 + wire.ProofLen]byte
	switch _, err := io.ReadFull(c, b[:]); {
	case err == io.EOF || err == io.ErrUnexpectedEOF: // it has no key, and closed the connection when it read that it needs one
		return fmt.Errorf("%w: no proof came from the near one", errKey)
	case err != nil:
		return fmt.Errorf("reading the near gateway's proof of the key: %w", err)
	}
	if wire.Kind(b[0]) != wire.Proof || !hmac.Equal(b[1:], wire.KeyProof(key, wire.Near, near, far)) {
		return fmt.Errorf("%w: the near one has another", errKey)
	}
	return nil
}
