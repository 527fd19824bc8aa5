package config

import (
	"bytes"
	"fmt"
	"os"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// minPeerKeyBytes and maxPeerKeyBytes limit a key that gateways share.
const (
	minPeerKeyBytes = 16
	maxPeerKeyBytes = 1024
)

// peers checks the keys peers, sample, peer_key_file and insecure_peers.
func (v *validator) peers(g *Gateway, path string) {
	if g.Peers && !g.carriesMessages() {
		v.add(path+".peers", "", "is only for protocol: grpc, http and mongo")
	}
	if g.Sample && !g.carriesMessages() {
		v.add(path+".sample", "", "is only for protocol: grpc, http and mongo")
	}
	if g.PeerKeyFile != "" && !g.HasLinks() {
		v.add(path+".peer_key_file", "", "is only for protocol: grpc, http, mongo, tunnel and tunnel-exit")
	}
	switch {
	case g.InsecurePeers && !g.AcceptsLinks():
		v.add(path+".insecure_peers", "", "is only for peers: true and protocol: tunnel-exit")
	case g.AcceptsAnyPeer() && !g.InsecurePeers && !endpoint.OnLoopback(g.Listen):
		v.openPeers(g, g.Listen)
	}
}

// HasLinks reports whether gateways of the protocol may have links with others.
func (g *Gateway) HasLinks() bool {
	return g.IsTunnel() || g.carriesMessages()
}

func (g *Gateway) carriesMessages() bool {
	return g.Protocol == GRPC || g.Protocol == HTTP || g.Protocol == Mongo
}

// AcceptsLinks reports whether clients may be gateways that open links.
func (g *Gateway) AcceptsLinks() bool { return g.Peers || g.Protocol == TunnelExit }

// AcceptsAnyPeer reports whether every client that reaches the gateway may open links.
func (g *Gateway) AcceptsAnyPeer() bool {
	return g.AcceptsLinks() && g.PeerKeyFile == "" && !g.requiresClientCert()
}

// openPeers refuses a gateway that lets any client open links (AcceptsAnyPeer) at an address that other machines reach.
func (ps *problems) openPeers(g *Gateway, address string) {
	ps.add(g.path+".listen", "name a file with a key that both gateways have in peer_key_file (--peer-key-file), set tls.client_ca, listen on 127.0.0.1, or allow it with insecure_peers: true (--insecure-peers)",
		"any client on another machine that reaches %s could open links to the gateway", address)
}

// OpenPeersError returns the error for a gateway that was given a listener off loopback by systemd, although its
// configuration has one on loopback.
func (c *Config) OpenPeersError(g *Gateway, address string) error {
	ps := problems{c: c}
	ps.openPeers(g, address)
	return ps.err()
}

// PeerKey returns the key that the gateway shares with other gateways, or nil if it has none. The file may end with a
// newline.
func (c *Config) PeerKey(g *Gateway) ([]byte, error) {
	if g.PeerKeyFile == "" {
		return nil, nil
	}
	file := c.path(g.PeerKeyFile)
	key, err := os.ReadFile(file)
	key = bytes.TrimSuffix(bytes.TrimSuffix(key, []byte("\n")), []byte("\r"))
	if err == nil && (len(key) < minPeerKeyBytes || len(key) > maxPeerKeyBytes) {
		err = fmt.Errorf("%s: the key has %d bytes; it must have %d to %d", file, len(key), minPeerKeyBytes, maxPeerKeyBytes)
	}
	if err != nil {
		err = terminal.WithHint(err, "both gateways need the same one, which head -c 32 /dev/urandom | base64 makes")
	}
	return key, c.InvalidGateway(g, "peer_key_file", err)
}
