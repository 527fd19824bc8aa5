package mongo

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// closedServer requires a login and allows TLS. Each user is named after its login mechanism.
type closedServer struct {
	*mongotest.Server
	file string // PEM file with its certificate and key
	pool *x509.CertPool
}

// closed returns a closedServer that tests share.
func closed(t testing.TB) closedServer {
	t.Helper()
	return testenv.Shared(t, "closed", func(t testing.TB) closedServer {
		s := closedServer{}
		s.file, s.pool = testenv.Certificate(t)
		s.Server = mongotest.Start(t, mongotest.Config{Args: []string{"--tlsMode", "allowTLS", "--tlsCertificateKeyFile", s.file, "--tlsAllowInvalidCertificates", "--tlsAllowConnectionsWithoutCertificates", "--auth", "--tlsCAFile", s.file}})
		for _, user := range []string{"SCRAM-SHA-256", "SCRAM-SHA-1"} {
			c := s.Client(t)
			if user == "SCRAM-SHA-1" { // the localhost exception allows creating the first user only
				c = connectAs(t, s.URI(), nil, "SCRAM-SHA-256", "secret")
			}
			create := bson.D{{Key: "createUser", Value: user}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"root"}}, {Key: "mechanisms", Value: bson.A{user}}}
			if err := c.Database("admin").RunCommand(t.Context(), create).Err(); err != nil {
				t.Fatal(err)
			}
		}
		return s
	})
}

// TLS on both sides, and SCRAM logins through the gateway: a user of either mechanism can write and read, and
// the server refuses a wrong password.
func TestTLSAndSCRAM(t *testing.T) {
	server := closed(t)
	serverTLS, err := endpoint.TLSFiles{Cert: server.file, Key: server.file}.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, server.Addr, withZstd, func(c *Config) {
		c.TLS = serverTLS
		c.Upstream.TLS = &tls.Config{RootCAs: server.pool}
	})
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-1"} {
		exercise(t, connectAs(t, s.uri(), server.pool, mechanism, "secret"))
		c := connectAs(t, s.uri(), server.pool, mechanism, "wrong")
		if err := c.Database("shop").Collection("users").FindOne(t.Context(), bson.D{}).Err(); err == nil || !mongo.IsNetworkError(err) && !isAuth(err) {
			t.Errorf("%s with a wrong password: %v", mechanism, err)
		}
	}
}

func isAuth(err error) bool { return err != nil && err != mongo.ErrNoDocuments }

func connectAs(t testing.TB, uri string, pool *x509.CertPool, mechanism, password string) *mongo.Client {
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
