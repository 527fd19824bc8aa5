package grpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/testenv"
)

// reading returns a small message, such as sensors or services send by the million.
func reading(r *rand.Rand) string {
	return fmt.Sprintf(`{"device":"thermo-%06d","tenant":"acme-industries","unit":"celsius","value":%d.%02d,"battery_percent":%d,`+
		`"firmware":"4.2.%d","site":{"country":"DE","plant":"north-%d","line":%d},"status":"OPERATIONAL","at":"2026-11-%02dT%02d:%02d:%02dZ"}`,
		r.IntN(1e6), r.IntN(90), r.IntN(100), r.IntN(100), r.IntN(12), r.IntN(9), r.IntN(20), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
}

// TestDictionariesBetweenProcesses checks that two gateways with mutual TLS between them train, exchange
// and use dictionaries, also after the far one was killed and has lost all of them. The admin page must
// show nothing of the messages but numbers.
func TestDictionariesBetweenProcesses(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	c := newCertificates(t)
	const training = "training: {min_samples: 300, poll: 100ms, interval: 1s, cpu: 90%}"
	far := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "grpc", Upstream: e.addr, Race: testenv.RaceDetector, Process: training,
		Settings: fmt.Sprintf("peers: true\ntls: {cert: %q, key: %q, client_ca: %q}", c.cert, c.key, c.ca),
		Rules:    "- {name: small, direction: reply, setting: zstd-3, dictionary: auto}",
	})
	near := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: "grpc", Upstream: "grpcs://" + far.Addr, Race: testenv.RaceDetector, Process: training,
		Settings: fmt.Sprintf("sample: true\nupstream_tls: {ca: %q, cert: %q, key: %q, server_name: %s}", c.ca, c.cert, c.key, authority),
		Rules:    "- {name: small, setting: zstd-3, dictionary: auto}",
	})
	conn := (*certificates)(nil).dial(t, near.Addr)
	r := rand.New(rand.NewPCG(1, 2))
	talk(t, near, far, conn, r)
	far.Kill()
	if err := far.Restart(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := echoOnce(within(t), conn, reading(r))
		if err == nil {
			break
		}
		if status.Code(err) != codes.Unavailable || time.Since(start) > patience {
			t.Fatal(err)
		}
	}
	talk(t, near, far, conn, r)
	for _, g := range []*testenv.GatewayServer{near, far} {
		if g.Metric(t, "cinch_grpc_sample_bytes") == 0 && g.Metric(t, "cinch_grpc_measured_methods") == 0 {
			t.Error("nothing is measured")
		}
		for _, path := range []string{"/api/status", "/api/messages"} {
			page := testenv.AdminPage(t, g.Admin, path)
			if !strings.Contains(page, `"sample_messages"`) || strings.Contains(page, "OPERATIONAL") {
				t.Errorf("%s: %s", path, page)
			}
		}
	}
	if page := testenv.AdminPage(t, near.Admin, "/api/messages"); !strings.Contains(page, `"setting": "zstd-3"`) {
		t.Error(page)
	}
}

// talk sends messages until dictionaries are used in both directions, and then measures.
func talk(t *testing.T, near, far *testenv.GatewayServer, conn *grpc.ClientConn, r *rand.Rand) {
	t.Helper()
	sealed := func() [2]float64 {
		return [2]float64{near.Metric(t, "cinch_grpc_dictionary_messages_total"), far.Metric(t, "cinch_grpc_dictionary_messages_total")}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	const messages = 100
	for {
		before := sealed()
		bytes := near.Metric(t, "cinch_value_stored_bytes_total")
		stream, err := openEcho(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		raw := 0
		for range messages {
			m := reading(r)
			raw += len(m)
			if err := roundTrip(stream, m); err != nil {
				t.Fatal(err)
			}
		}
		_ = stream.CloseSend()
		now := sealed()
		// Each gateway compresses one direction and decompresses the other.
		if now[0]-before[0] >= 2*messages && now[1]-before[1] >= 2*messages {
			if sent := near.Metric(t, "cinch_value_stored_bytes_total") - bytes; 3*sent > float64(raw) {
				t.Errorf("%d bytes of messages became %.0f", raw, sent)
			}
			return
		}
		time.Sleep(50 * time.Millisecond) // leaves the processor to the training
	}
}
