package pg

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// SCRAM-SHA-256 (RFC 5802, 7677), as far as a gateway needs it. The server stores a verifier, with StoredKey
// = SHA-256(ClientKey). A client proves that it has ClientKey by
//
//	proof = ClientKey XOR HMAC(StoredKey, all messages before)
//
// so a gateway that has forwarded a login and has the verifier can compute ClientKey and log in as that
// client: PgBouncer does so too.

// ScramSHA256 is the mechanism's name.
const ScramSHA256 = "SCRAM-SHA-256"

// ErrScram means that a login by SCRAM can't continue.
var ErrScram = errors.New("scram")

// Proof holds the messages and the proof of a client's SCRAM login.
type Proof struct {
	said  string // AuthMessage in RFC 5802: the messages of both sides, without the proof
	proof []byte
}

// NewProof extracts the proof from the client's first message (within its SASLInitialResponse), the server's
// first one, and the client's last one.
func NewProof(clientFirst, serverFirst, clientFinal []byte) (*Proof, error) {
	parts := bytes.SplitN(clientFirst, []byte(","), 3)
	final, proof, ok := bytes.Cut(clientFinal, []byte(",p="))
	if len(parts) != 3 || !ok {
		return nil, ErrScram
	}
	raw, err := base64.StdEncoding.DecodeString(string(proof))
	if err != nil || len(raw) != sha256.Size {
		return nil, ErrScram
	}
	return &Proof{said: string(parts[2]) + "," + string(serverFirst) + "," + string(final), proof: raw}, nil
}

// Salt returns the salt and the iterations of the verifier that the login used. They change with the
// password.
func (p *Proof) Salt() string {
	var salt, iterations string
	for part := range strings.SplitSeq(p.said, ",") {
		switch {
		case strings.HasPrefix(part, "s="):
			salt = part
		case strings.HasPrefix(part, "i="):
			iterations = part
		}
	}
	return salt + "," + iterations
}

// InitialResponse parses a SASLInitialResponse.
func InitialResponse(body []byte) (mechanism string, data []byte, err error) {
	mechanism, rest, err := String(body)
	if err != nil || len(rest) < 4 {
		return "", nil, ErrProtocol
	}
	return mechanism, rest[4:], nil
}

// ScramKeys are the keys that log a user in and verify the server.
type ScramKeys struct{ client, stored, server []byte }

// Verifier is a user's verifier in pg_authid: "SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey".
type Verifier struct {
	iterations           int
	salt, stored, server []byte
}

// ParseVerifier parses a verifier; ok is false if text is none.
func ParseVerifier(text string) (v Verifier, ok bool) {
	rest, ok := strings.CutPrefix(text, ScramSHA256+"$")
	head, keys, cut := strings.Cut(rest, "$")
	if !ok || !cut {
		return v, false
	}
	iterations, salt, _ := strings.Cut(head, ":")
	stored, server, _ := strings.Cut(keys, ":")
	n, err := strconv.Atoi(iterations)
	v.iterations = n
	for _, p := range []struct {
		to   *[]byte
		text string
	}{{&v.salt, salt}, {&v.stored, stored}, {&v.server, server}} {
		var failed error
		*p.to, failed = base64.StdEncoding.DecodeString(p.text)
		err = errors.Join(err, failed)
	}
	return v, err == nil && n > 0 && len(v.stored) == sha256.Size && len(v.server) == sha256.Size
}

// Keys returns the keys of the client that made the proof. ok is false if the proof is for another verifier.
func (v Verifier) Keys(p *Proof) (k ScramKeys, ok bool) {
	client := make([]byte, sha256.Size)
	subtle.XORBytes(client, sum(v.stored, p.said), p.proof)
	hash := sha256.Sum256(client)
	return ScramKeys{client, v.stored, v.server}, subtle.ConstantTimeCompare(hash[:], v.stored) == 1
}

// keysOf returns the keys for a password. Non-ASCII passwords are used unchanged, without SASLprep.
func keysOf(password string, salt []byte, iterations int) (k ScramKeys, err error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return k, err
	}
	k.client, k.server = sum(salted, "Client Key"), sum(salted, "Server Key")
	stored := sha256.Sum256(k.client)
	k.stored = stored[:]
	return k, nil
}

func sum(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// ScramClient logs in with keys or a password.
type ScramClient struct {
	Keys     *ScramKeys // nil: derived from Password
	Password string

	first, said string
}

// maxIterations limits the iterations that a server may demand.
const maxIterations = 1 << 22

// First returns the client's first message; nonce must be random and printable.
func (c *ScramClient) First(nonce string) []byte {
	c.first = "n=,r=" + nonce
	return []byte("n,," + c.first)
}

// Final returns the response to the server's first message.
func (c *ScramClient) Final(serverFirst []byte) ([]byte, error) {
	var nonce, salt, count string
	if _, err := fmt.Sscanf(strings.ReplaceAll(string(serverFirst), ",", " "), "r=%s s=%s i=%s", &nonce, &salt, &count); err != nil {
		return nil, ErrScram
	}
	iterations, err := strconv.Atoi(count)
	if err != nil || iterations < 1 || iterations > maxIterations || !strings.HasPrefix(nonce, strings.TrimPrefix(c.first, "n=,r=")) {
		return nil, ErrScram
	}
	if c.Keys == nil {
		raw, err := base64.StdEncoding.DecodeString(salt)
		if err != nil {
			return nil, ErrScram
		}
		k, err := keysOf(c.Password, raw, iterations)
		if err != nil {
			return nil, err
		}
		c.Keys = &k
	}
	final := "c=biws,r=" + nonce
	c.said = c.first + "," + string(serverFirst) + "," + final
	proof := make([]byte, sha256.Size)
	subtle.XORBytes(proof, c.Keys.client, sum(c.Keys.stored, c.said))
	return []byte(final + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

// Done checks the server's last message, which proves that the server has the verifier.
func (c *ScramClient) Done(serverFinal []byte) error {
	want := "v=" + base64.StdEncoding.EncodeToString(sum(c.Keys.server, c.said))
	if subtle.ConstantTimeCompare([]byte(want), serverFinal) != 1 {
		return fmt.Errorf("%w: the server's proof is wrong: it does not have the user's verifier", ErrScram)
	}
	return nil
}

// MD5 returns the response to a request for MD5. secret is a password, or its form in pg_authid: "md5" and
// md5(password, user) in hexadecimal.
func MD5(user, secret string, salt []byte) string {
	if !IsMD5(secret) {
		h := md5.Sum([]byte(secret + user))
		secret = "md5" + hex.EncodeToString(h[:])
	}
	h := md5.Sum(append([]byte(secret[3:]), salt...))
	return "md5" + hex.EncodeToString(h[:])
}

// IsMD5 reports whether secret has the form in which pg_authid stores an MD5 password.
func IsMD5(secret string) bool {
	rest, ok := strings.CutPrefix(secret, "md5")
	return ok && len(rest) == 2*md5.Size && strings.Trim(rest, "0123456789abcdef") == ""
}
