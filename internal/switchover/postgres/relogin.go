package postgres

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// relogin logs a session in at another server, up to the first ReadyForQuery.
type relogin struct {
	server      *messageConn
	user        string
	credentials credentials
	secrets     func() (string, error) // returns the user's secret
	scram       pg.ScramClient
}

// credentials holds the SCRAM proof or the password that a client's login has revealed.
type credentials struct {
	proof    *pg.Proof
	password string
}

// answer responds to an authentication request.
func (r *relogin) answer(body []byte) error {
	code, rest, err := pg.Auth(body)
	if err != nil {
		return err
	}
	switch code {
	case pg.AuthOK:
		return nil
	case pg.AuthCleartext:
		return r.password()
	case pg.AuthMD5:
		return r.md5(rest)
	case pg.AuthSASL:
		return r.begin(rest)
	case pg.AuthSASLContinue:
		final, err := r.scram.Final(rest)
		if err != nil {
			return err
		}
		return r.send(final)
	case pg.AuthSASLFinal:
		return r.scram.Done(rest)
	}
	return errUnknownLogin
}

func (r *relogin) send(body ...[]byte) error {
	_, err := r.server.conn.Write(pg.Append(nil, pg.Password, body...))
	return err
}

func (r *relogin) password() error {
	password := r.credentials.password
	if password == "" {
		var err error
		if password, err = r.secrets(); err != nil {
			return err
		}
		if _, verifier := pg.ParseVerifier(password); verifier || pg.IsMD5(password) {
			return errors.New("the server asks for the password in clear text, but only its verifier is known")
		}
	}
	return r.send([]byte(password), []byte{0})
}

// secret returns the password, or the verifier if the password is unknown.
func (r *relogin) secret() (string, error) {
	if r.credentials.password != "" {
		return r.credentials.password, nil
	}
	return r.secrets()
}

func (r *relogin) md5(salt []byte) error {
	secret, err := r.secret()
	if err != nil {
		return err
	}
	if _, verifier := pg.ParseVerifier(secret); verifier {
		return errors.New("the server asks for MD5, but only a SCRAM verifier is known")
	}
	return r.send([]byte(pg.MD5(r.user, secret, salt)), []byte{0})
}

// begin starts SCRAM.
func (r *relogin) begin(mechanisms []byte) error {
	if !strings.Contains("\x00"+string(mechanisms), "\x00"+pg.ScramSHA256+"\x00") {
		return errUnknownLogin
	}
	if err := r.keys(); err != nil {
		return err
	}
	nonce := make([]byte, 18)
	_, _ = rand.Read(nonce)
	first := r.scram.First(hex.EncodeToString(nonce))
	return r.send([]byte(pg.ScramSHA256), []byte{0, 0, 0, 0, byte(len(first))}, first)
}

// keys sets the password or the keys for SCRAM.
func (r *relogin) keys() error {
	secret, err := r.secret()
	if err != nil {
		return err
	}
	v, ok := pg.ParseVerifier(secret)
	switch {
	case pg.IsMD5(secret):
		return errors.New("the server asks for SCRAM, but only an MD5 verifier is known")
	case !ok:
		r.scram.Password = secret
		return nil
	case r.credentials.proof == nil:
		return errors.New("only the user's verifier is known, and the client did not log in by SCRAM")
	}
	keys, ok := v.Keys(r.credentials.proof)
	if !ok {
		return errors.New("the user's password has been changed since the client logged in")
	}
	r.scram.Keys = &keys
	return nil
}
