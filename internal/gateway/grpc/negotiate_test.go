package grpc

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
)

// TestNegotiatedRequests checks which encoding messages to a server get, by what the client sends, what a
// rule wants and what the server has announced.
func TestNegotiatedRequests(t *testing.T) {
	silent := func() *serverCapabilities { return newServerCapabilities(nil, false, &link.Support{}) }
	says := func(list string) *serverCapabilities {
		k := silent()
		k.recordList([]string{list})
		return k
	}
	rules := rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1")})
	for _, c := range []struct {
		name     string
		rules    *policy.Messages
		from     []string
		server   *serverCapabilities
		to, asks string
	}{
		{"no rule", rulesOf(t), nil, says("zstd"), "", ""},
		{"an unknown server", rules, nil, silent(), "", "zstd"},
		{"a server that reads it", rules, nil, says("gzip,zstd"), "zstd", ""},
		{"a server that reads none", rules, nil, says("identity"), "", ""},
		{"the client's own, to an unknown server", rules, []string{"Grpc-Encoding", "gzip"}, silent(), "gzip", "zstd"},
		{"the client's own, which no server reads", rules, []string{"Grpc-Encoding", "gzip"}, says("identity"), "", ""},
		{"one that we can't open", rules, []string{"Grpc-Encoding", "strange"}, says("zstd"), "strange", ""},
		{"a gateway's, to an unknown server", rulesOf(t), []string{"Grpc-Encoding", "s2", "Grpc-Accept-Encoding", "cinch"}, silent(), "", "s2"},
	} {
		var n terms
		if !(&handler{shared: inForce(c.rules)}).negotiate(callFrom(c.from...), &n) {
			t.Errorf("%s: refused", c.name)
		}
		p := n.planRequest(c.server)
		if p.to != c.to {
			t.Errorf("%s: %q", c.name, p.to)
		}
		if asks := strings.Join(p.undecided, ","); asks != c.asks {
			t.Errorf("%s: it is asked for %q", c.name, asks)
		}
	}
}

// Only clients that are gateways are told that this gateway accepts links, and only if it does. What an upstream
// announces about itself is not forwarded.
func TestLinksAreAnnounced(t *testing.T) {
	for _, c := range []struct {
		client, upstream string
		accepts          bool
		want             string
	}{
		{"gzip", "", true, ""},
		{"gzip", "identity,gzip", true, "identity,gzip"},
		{"gzip,cinch-link", "", true, ""},
		{"gzip", "gzip,cinch,zstd,cinch-link", true, "gzip"},
		{"gzip,cinch", "", true, "cinch," + strings.Join(ownNames, ",") + ",cinch-link"},
		{"gzip,cinch", "", false, "cinch," + strings.Join(ownNames, ",")},
		{"gzip,cinch", "lz4,cinch,zstd,cinch-link", false, "lz4,cinch," + strings.Join(ownNames, ",")},
	} {
		s := inForce(rulesOf(t))
		s.acceptsLinks = c.accepts
		var n terms
		(&handler{shared: s}).negotiate(callFrom("Grpc-Accept-Encoding", c.client), &n)
		p := n.planReply("")
		h := http.Header{}
		if c.upstream != "" {
			h.Set("Grpc-Accept-Encoding", c.upstream)
		}
		n.editResponseHeader(h, &p)
		if got := h.Get("Grpc-Accept-Encoding"); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
