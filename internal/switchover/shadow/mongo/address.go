package mongo

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// Errors of ParseURI.
var (
	errSeveral   = errors.New("name one server: a mirror has one production, one control and one test")
	errMechanism = errors.New("unsupported authMechanism: targets need SCRAM-SHA-256 or SCRAM-SHA-1")
)

// ParseURI parses a mongodb:// URI of one server. User is the target's own user; Database is the one that
// stores it.
func ParseURI(raw string) (endpoint.Upstream, error) {
	cs, err := connstring.ParseAndValidate(raw)
	if err != nil {
		return endpoint.Upstream{}, fmt.Errorf("%w: %w", endpoint.ErrUpstreamURL, err)
	}
	if len(cs.Hosts) != 1 {
		return endpoint.Upstream{}, errSeveral
	}
	if !slices.Contains([]string{"", "SCRAM-SHA-1", "SCRAM-SHA-256"}, cs.AuthMechanism) {
		return endpoint.Upstream{}, errMechanism
	}
	up, err := endpoint.ParseUpstream(cs.Hosts[0], "27017")
	if err != nil {
		return up, err
	}
	up.User, up.Password = cs.Username, cs.Password
	up.Database = cmp.Or(cs.AuthSource, "admin")
	if cs.SSL {
		up.TLS, err = tlsOf(cs)
	}
	return up, err
}

func tlsOf(cs *connstring.ConnString) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cs.SSLInsecure}
	if cs.SSLCaFile != "" {
		pem, err := os.ReadFile(cs.SSLCaFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate", cs.SSLCaFile)
		}
	}
	if cs.SSLClientCertificateKeyFile != "" {
		pair, err := tls.LoadX509KeyPair(cs.SSLClientCertificateKeyFile, cs.SSLClientCertificateKeyFile)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// WithoutUser returns a URI for a gateway, whose clients log in by themselves.
func WithoutUser(raw string) string {
	up, err := ParseURI(raw)
	if err != nil {
		return raw
	}
	uri := "mongodb://" + up.Address + "/?directConnection=true"
	if up.TLS != nil {
		uri += "&tls=true"
	}
	return uri
}
