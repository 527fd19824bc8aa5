package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/test/testenv"
)

// everyProtocol has a gateway for each protocol, without reachable upstreams.
const everyProtocol = `admin: {listen: 127.0.0.1:0}
gateways:
  - {name: redis, protocol: redis, listen: 127.0.0.1:0, upstream: redis://127.0.0.1:1, rules: [{name: one, setting: zstd-3}]}
  - {name: cluster, protocol: redis, listen: 127.0.0.1:0, upstream: redis+cluster://127.0.0.1:1, rules: [{name: one, setting: zstd-3}]}
  - {name: tarantool, protocol: tarantool, listen: 127.0.0.1:0, upstream: tarantool://127.0.0.1:1, rules: [{name: one, setting: zstd-3}]}
  - {name: mongo, protocol: mongo, listen: 127.0.0.1:0, upstream: mongodb://127.0.0.1:1, rules: [{name: one, setting: zstd-3}]}
  - {name: grpc, protocol: grpc, listen: 127.0.0.1:0, upstream: grpc://127.0.0.1:1, rules: [{name: one, setting: zstd-3}]}
  - {name: tunnel, protocol: tunnel, listen: 127.0.0.1:0, upstream: tcp://127.0.0.1:1}
  - {name: postgres, protocol: postgres, listen: 127.0.0.1:0, upstream: postgres://127.0.0.1:1}
`

// The pages answer for all protocols, even those without features of the others.
func TestEveryProtocolIsDescribed(t *testing.T) {
	p, err := New(Options{
		Load: func() (*config.Config, error) { return config.Parse("", []byte(everyProtocol), nil) },
		Log:  &testenv.Log{},
		Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- p.Run(ctx, context.Background()) }()
	defer func() { cancel(); <-done }()
	_, addr := p.Addresses()
	for _, path := range []string{"/", "/api/status", "/api/whatif", "/api/messages", "/api/history", "/metrics"} {
		resp, err := http.Get("http://" + addr.String() + path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %v %s", path, resp.StatusCode, err, body)
		}
		var s admin.Status
		if path == "/api/status" && (json.Unmarshal(body, &s) != nil || len(s.Gateways) != 7) {
			t.Errorf("%d gateways: %s", len(s.Gateways), body)
		}
	}
}

// A rule that has enough samples while another is trained is marked as waiting.
func TestDescribeWaiting(t *testing.T) {
	list := []admin.Learning{
		{Rule: "collects", Samples: 5, Wanted: 10},
		{Rule: "enough", Samples: 10, Wanted: 10},
		{Rule: "refused", Samples: 10, Wanted: 10, Refused: true},
	}
	waits := func(want string) {
		t.Helper()
		got := ""
		for _, l := range markWaiting(slices.Clone(list)) {
			if l.Waiting {
				got += l.Rule
			}
		}
		if got != want {
			t.Errorf("%q waits, want %q", got, want)
		}
	}
	waits("") // its turn is next
	list = append(list, admin.Learning{Rule: "trained", Samples: 10, Wanted: 10, Step: 1, Steps: 9})
	waits("enough")
}
