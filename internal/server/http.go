package server

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/http"
)

var httpLinks = map[string]http.Sharing{config.ClientHistory: http.PerClient, config.SharedHistory: http.Shared, config.NoHistory: http.NoHistory, "": http.Default}

// addHTTP makes r a gateway for HTTP.
func (s *shared) addHTTP(l *loaded, g *config.Gateway, r *running, secure *tls.Config) {
	made := http.NewGateway(http.Config{
		Name:          g.Name,
		Upstream:      r.upstream,
		H2C:           strings.HasPrefix(g.Upstream, "h2c:"),
		OwnHost:       g.UpstreamHost,
		TLS:           secure,
		MaxConns:      g.MaxConnections,
		MaxStreams:    g.MaxStreams,
		Grace:         time.Duration(s.started.DrainGrace),
		MaxHeader:     int(g.MaxHeader),
		MaxCompress:   int(g.MaxSeal),
		MaxOpen:       int(*g.MaxOpen),
		Sample:        g.Sample,
		Peers:         g.Peers,
		Link:          httpLinks[g.LinkHistory()],
		Links:         linkConfig(g, r.peerKey),
		UpstreamReads: g.UpstreamEncodings,
		Codecs:        s.grpcCodecs(),
		Engine:        s.engine,
		Requests:      s.requests,
		Replies:       s.replies,
		Effort:        r.effort,
		Stats:         r.stats,
		Log:           r.log,
	})
	made.SetPolicy(l.messages[g.Name])
	r.gateway, r.messages, r.http = made, made, made
	warnSharedHistory(g, r)
	s.addLinks(g, made.Links(), made.Lanes())
	r.onListen = func() {
		r.log.Info("point HTTP clients at the gateway instead of its upstream", "clients", r.listener.Addr().String(), "tls", secure != nil)
	}
}
