package mongo

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TLS on both sides and SCRAM through it: a user who logs in by either mechanism reads what
// was written, and a wrong password is refused by the server.
func TestTLSAndSCRAM(t *testing.T) {
	file, pool := testenv.Certificate(t)
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
