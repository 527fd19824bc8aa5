package grpc

import (
	"crypto/tls"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestMutualTLS checks that a gateway that requires certificates accepts clients with one, refuses those
// without, and presents its own to an upstream that requires one too.
func TestMutualTLS(t *testing.T) {
	c := newCertificates(t)
	e := startEcho(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: c.server.Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.pool,
	})))
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "grpc", Upstream: "grpcs://" + e.addr, Race: testenv.RaceDetector,
		Settings: fmt.Sprintf("tls: {cert: %q, key: %q, client_ca: %q}\nupstream_tls: {ca: %q, cert: %q, key: %q, server_name: %s}",
			c.cert, c.key, c.ca, c.ca, c.cert, c.key, authority),
	})
	for _, known := range []bool{true, false} {
		config := &tls.Config{RootCAs: c.pool, ServerName: authority}
		if known {
			config.Certificates = c.server.Certificates
		}
		conn, err := grpc.NewClient("passthrough:///"+gateway.Addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = echoOnce(within(t), conn, "hello")
		if known && err != nil {
			t.Errorf("with a certificate: %v", err)
		}
		if !known && status.Code(err) != codes.Unavailable {
			t.Errorf("without a certificate: %v, want Unavailable", err)
		}
	}
}
