package mongo

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

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// certificate writes a self-signed one for 127.0.0.1 and its key into one file, as mongod
// wants it.
func certificate(t *testing.T) (file string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...)
	file = filepath.Join(t.TempDir(), "server.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, pool
}

// TLS on both sides and SCRAM through it: a user who logs in by either mechanism reads what
// was written, and a wrong password is refused by the server.
func TestTLSAndSCRAM(t *testing.T) {
	file, pool := certificate(t)
	server := testenv.Mongod(t, testenv.MongodConfig{Args: []string{"--tlsMode", "allowTLS", "--tlsCertificateKeyFile", file, "--tlsAllowInvalidCertificates", "--tlsAllowConnectionsWithoutCertificates", "--auth", "--tlsCAFile", file}})
	roles := bson.A{"root"}
	for _, user := range []string{"SCRAM-SHA-256", "SCRAM-SHA-1"} {
		c := server.Client(t)
		if user == "SCRAM-SHA-1" { // localhost's exception is for the first user
			c = connectAs(t, server.URI(), nil, "SCRAM-SHA-256", "secret")
		}
		create := bson.D{{Key: "createUser", Value: user}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: roles}, {Key: "mechanisms", Value: bson.A{user}}}
		if err := c.Database("admin").RunCommand(t.Context(), create).Err(); err != nil {
			t.Fatal(err)
		}
	}
	serverTLS, err := gateway.TLSFiles{Cert: file, Key: file}.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, server.Addr, withZstd, func(c *Config) {
		c.TLS = serverTLS
		c.Upstream.TLS = &tls.Config{RootCAs: pool}
	})
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-1"} {
		exercise(t, connectAs(t, s.uri(), pool, mechanism, "secret"))
		c := connectAs(t, s.uri(), pool, mechanism, "wrong")
		if err := c.Database("shop").Collection("users").FindOne(t.Context(), bson.D{}).Err(); err == nil || !mongo.IsNetworkError(err) && !isAuth(err) {
			t.Errorf("%s with a wrong password: %v", mechanism, err)
		}
	}
}

func isAuth(err error) bool { return err != nil && err != mongo.ErrNoDocuments }

func connectAs(t *testing.T, uri string, pool *x509.CertPool, mechanism, password string) *mongo.Client {
	t.Helper()
	o := options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second).SetCompressors([]string{"snappy"})
	o.SetAuth(options.Credential{AuthMechanism: mechanism, AuthSource: "admin", Username: mechanism, Password: password})
	if pool != nil {
		o.SetTLSConfig(&tls.Config{RootCAs: pool})
	}
	c, err := mongo.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(t.Context()) })
	return c
}
