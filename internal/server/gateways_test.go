package server

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A protocol of the configuration without an implementation here is an error, and does not get a gateway for
// Redis.
func TestProtocolWithoutGateway(t *testing.T) {
	err := (&shared{}).addProtocol(nil, &config.Gateway{Name: "g", Protocol: "gopher"}, &running{}, nil)
	if err == nil || !strings.Contains(err.Error(), "gopher") {
		t.Error(err)
	}
}

// Gateways for gRPC, HTTP and MongoDB use links unless link.history is none, and accept them if peers is set. The log warns
// if clients share a history, and if any client may open a link.
func TestLinksOfGateways(t *testing.T) {
	for keys, want := range map[string]struct{ links, shared, open int }{
		"":                                     {3, 0, 0},
		", link: {window: 1MiB}":               {3, 0, 0},
		", link: {history: client}":            {3, 0, 0},
		", link: {history: shared}":            {3, 3, 0},
		", link: {history: none}":              {0, 0, 0},
		", link: {history: none}, peers: true": {3, 0, 3},
		", peers: true":                        {3, 0, 3},
	} {
		log := &testenv.Log{}
		p, err := New(Options{
			Load: func() (*config.Config, error) {
				return config.Parse("", []byte(`admin: {listen: off}
gateways:
  - {name: a, protocol: grpc, listen: "127.0.0.1:0", upstream: "grpc://127.0.0.1:1"`+keys+`}
  - {name: b, protocol: http, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"`+keys+`}
  - {name: c, protocol: mongo, listen: "127.0.0.1:0", upstream: "mongodb://127.0.0.1:1"`+keys+`}
`), nil)
			},
			Log:  log,
			Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
		})
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		links, shared, open := len(p.shared.links), log.Count("link.history is shared"), log.Count("peers without tls.client_ca")
		if links != want.links || shared != want.shared || open != want.open {
			t.Errorf("%s: %d gateways with links, warnings of %d shared histories and %d open listeners", keys, links, shared, open)
		}
		p.close()
	}
}
