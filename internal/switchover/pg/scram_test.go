package pg

import (
	"encoding/base64"
	"testing"
)

// The exchange of RFC 7677, section 3: with the messages and the verifier a gateway can log in.
func TestScram(t *testing.T) {
	const (
		nonce       = "rOprNGfwEbeRWgbNEkqO"
		serverFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
		final       = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
		serverFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	c := &ScramClient{Password: "pencil"}
	c.First(nonce)
	c.first = "n=user,r=" + nonce // PostgreSQL's clients send no user
	if _, err := c.Final([]byte(serverFirst)); err == nil {
		t.Fatal("a nonce that does not begin with the client's is accepted")
	}
	said := "n=user,r=" + nonce + "," + serverFirst + "," + final[:len(final)-len(",p=")-44]
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	keys, err := keysOf("pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	text := ScramSHA256 + "$4096:W22ZaJ0SNY7soEsUEjb6gQ==$" + base64.StdEncoding.EncodeToString(keys.stored) + ":" + base64.StdEncoding.EncodeToString(keys.server)
	v, ok := ParseVerifier(text)
	if !ok {
		t.Fatal("no verifier")
	}
	p, err := NewProof([]byte("n,,n=user,r="+nonce), []byte(serverFirst), []byte(final))
	if err != nil || p.said != said {
		t.Fatalf("%v: %q", err, p)
	}
	learnt, ok := v.Keys(p)
	if !ok || string(learnt.client) != string(keys.client) {
		t.Error("the key does not follow from the proof")
	}
	c = &ScramClient{Keys: &learnt, said: said}
	if err := c.Done([]byte(serverFinal)); err != nil {
		t.Error(err)
	}
	p.proof[0] ^= 1
	if _, ok := v.Keys(p); ok {
		t.Error("a wrong proof gives keys")
	}
	for _, bad := range []string{"", "md5x", "SCRAM-SHA-256$4096:x", "SCRAM-SHA-256$0:W22Z$YQ==:YQ=="} {
		if _, ok := ParseVerifier(bad); ok {
			t.Errorf("%q is a verifier", bad)
		}
	}
}

// The responses of PostgreSQL's clients.
func TestMD5(t *testing.T) {
	stored := "md5" + "5b13f3a9d4a6b5a9" // too short to be an MD5 secret
	if IsMD5(stored) {
		t.Error("too short")
	}
	salt := []byte{1, 2, 3, 4}
	secret := "md58311adaa6bde0fe1f8bb5a3bd7a2b4ed"
	if !IsMD5(secret) || MD5("u", secret, salt) == MD5("u", secret, []byte{1, 2, 3, 5}) {
		t.Error("the salt does not count")
	}
}
