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

// SCRAM-SHA-256 (RFC 5802, 7677), as far as a gateway needs it. The server keeps a verifier, with StoredKey = SHA-256(ClientKey). A
// client proves that it has ClientKey by
//
//	proof = ClientKey XOR HMAC(StoredKey, all that was said before)
//
// so whoever has heard a login and knows the verifier knows ClientKey, and can log in as that client: PgBouncer does so too.

// ScramSHA256 is the mechanism's name.
const ScramSHA256 = "SCRAM-SHA-256"

// ErrScram is a login by SCRAM that can't go on.
var ErrScram = errors.New("scram")

// Proof is what a login has shown.
type Proof struct {
	said  string // by both, but for the proof
	proof []byte
}

// NewProof takes what was said: the client's first message (within its SASLInitialResponse), the server's, and the client's last one.
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

// Salt is what the server said of the verifier that was shown: salt and iterations. After the password was changed there is another one.
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

// InitialResponse is what a SASLInitialResponse holds.
func InitialResponse(body []byte) (mechanism string, data []byte, err error) {
	mechanism, rest, err := String(body)
	if err != nil || len(rest) < 4 {
		return "", nil, ErrProtocol
	}
	return mechanism, rest[4:], nil
}

// ScramKeys log a user in, and know the server.
type ScramKeys struct{ client, stored, server []byte }

// Verifier is a user's in pg_authid: "SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey".
type Verifier struct {
	iterations           int
	salt, stored, server []byte
}

// ParseVerifier reads one; ok is false when text is none.
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

// Keys are those of a client that has proved to have them.
func (v Verifier) Keys(p *Proof) (k ScramKeys, ok bool) {
	client := make([]byte, sha256.Size)
	subtle.XORBytes(client, sum(v.stored, p.said), p.proof)
	hash := sha256.Sum256(client)
	return ScramKeys{client, v.stored, v.server}, subtle.ConstantTimeCompare(hash[:], v.stored) == 1
}

// keysOf are those of a password. Passwords beyond ASCII are taken as they are, without SASLprep.
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

// ScramClient is a login by keys, or by a password.
type ScramClient struct {
	Keys     *ScramKeys // nil: Password
	Password string

	first, said string
}

// maxIterations that a server may ask for.
const maxIterations = 1 << 22

// First is the first message; nonce is random and printable.
func (c *ScramClient) First(nonce string) []byte {
	c.first = "n=,r=" + nonce
	return []byte("n,," + c.first)
}

// Final answers the server's first message.
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

// Done checks the server's last message: it has to know the verifier too.
func (c *ScramClient) Done(serverFinal []byte) error {
	want := "v=" + base64.StdEncoding.EncodeToString(sum(c.Keys.server, c.said))
	if subtle.ConstantTimeCompare([]byte(want), serverFinal) != 1 {
		return fmt.Errorf("%w: the server does not know the user's verifier", ErrScram)
	}
	return nil
}

// MD5 answers a challenge. secret is a password, or what pg_authid has: "md5" and md5(password, user) in hexadecimal.
func MD5(user, secret string, salt []byte) string {
	if !IsMD5(secret) {
		h := md5.Sum([]byte(secret + user))
		secret = "md5" + hex.EncodeToString(h[:])
	}
	h := md5.Sum(append([]byte(secret[3:]), salt...))
	return "md5" + hex.EncodeToString(h[:])
}

// IsMD5 reports whether a secret is what pg_authid has of a user with MD5.
func IsMD5(secret string) bool {
	rest, ok := strings.CutPrefix(secret, "md5")
	return ok && len(rest) == 2*md5.Size && strings.Trim(rest, "0123456789abcdef") == ""
}
