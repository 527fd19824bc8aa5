package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates and writes them to files.
type Authority struct {
	File string         // PEM file of the authority's own certificate
	Pool *x509.CertPool // trusts it

	// Organization is written into the subject of signed certificates; "": none. MongoDB treats clients
	// whose certificate names its own organization as members of the cluster.
	Organization string

	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// NewAuthority makes an authority in a directory that is removed when the test ends.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir(), Pool: x509.NewCertPool()}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(t, template)
	a.Pool.AddCert(a.cert)
	a.File = a.write(t, "authority.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

// Issued names the files of a certificate and its key.
type Issued struct {
	Cert, Key string // files
	Serial    int64
}

// TLS returns a configuration with the certificate, for a server or a client.
func (i Issued) TLS(t testing.TB) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(i.Cert, i.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// Issue writes a certificate with that common name for servers and clients. hosts are addresses or DNS
// names; none means 127.0.0.1. Issuing the same name again replaces the files.
func (a *Authority) Issue(t testing.TB, name string, hosts ...string) Issued {
	t.Helper()
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	subject := pkix.Name{CommonName: name}
	if a.Organization != "" {
		subject.Organization = []string{a.Organization}
	}
	template := &x509.Certificate{
		Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	cert, key := a.sign(t, template)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Issued{
		Cert:   a.write(t, name+".pem", "CERTIFICATE", cert.Raw),
		Key:    a.write(t, name+".key", "PRIVATE KEY", secret),
		Serial: a.serial,
	}
}

// sign generates a key and a certificate for it, signed by the authority. The first certificate is
// self-signed.
func (a *Authority) sign(t testing.TB, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *Authority) write(t testing.TB, name, kind string, der []byte) (file string) {
	t.Helper()
	file = filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Certificate writes a certificate for 127.0.0.1, its key and its authority's certificate into one file,
// and returns the file with a pool that trusts the authority.
func Certificate(t testing.TB) (file string, pool *x509.CertPool) {
	t.Helper()
	a := NewAuthority(t)
	return a.Bundle(t, a.Issue(t, "server")), a.Pool
}

// Bundle writes a certificate, its key and the authority's certificate into one file, the form that MongoDB
// reads.
func (a *Authority) Bundle(t testing.TB, i Issued) (file string) {
	t.Helper()
	var all []byte
	for _, name := range []string{i.Cert, i.Key, a.File} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	file = i.Cert + ".all"
	if err := os.WriteFile(file, all, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
