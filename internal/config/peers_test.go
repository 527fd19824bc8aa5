package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Outside loopback a gateway that accepts links needs a key, a CA for clients, or insecure_peers.
func TestOpenPeers(t *testing.T) {
	const secure = ", tls: {cert: c, key: k, client_ca: ca}"
	for _, g := range []string{
		"protocol: grpc, upstream: 'grpc://h:1', peers: true", "protocol: http, upstream: 'http://h', peers: true",
		"protocol: mongo, upstream: 'mongodb://h', peers: true", "protocol: tunnel-exit, upstream: 'h:1'",
	} {
		for _, listen := range []string{"127.0.0.1:1", "'[::1]:1'", "localhost:1", "unix:/run/s", "0.0.0.0:1", "':1'", "far:1"} {
			for more, closed := range map[string]bool{
				"": false, ", tls: {cert: c, key: k}": false, secure: true, ", peer_key_file: f": true, ", insecure_peers: true": true,
			} {
				_, err := Parse("f", []byte("gateways: [{name: a, listen: "+listen+", "+g+more+"}]"), nil)
				local := !strings.Contains(listen, "0.0.0.0") && !strings.Contains(listen, "':1'") && !strings.Contains(listen, "far")
				if (err == nil) != (local || closed) {
					t.Errorf("%s at %s%s: %v", g, listen, more, err)
				}
				if err != nil && !strings.Contains(err.Error(), "peer_key_file (--peer-key-file)") {
					t.Errorf("without a hint: %v", err)
				}
			}
		}
	}
	for text, want := range map[string]string{
		"protocol: redis, upstream: 'redis://h', peer_key_file: f":                  "peer_key_file: is only for",
		"protocol: postgres, upstream: 'postgres://h', peer_key_file: f":            "peer_key_file: is only for",
		"protocol: grpc, upstream: 'grpc://h:1', insecure_peers: true":              "insecure_peers: is only for",
		"protocol: tunnel, upstream: 'h:1', insecure_peers: true":                   "insecure_peers: is only for",
		"protocol: grpc, upstream: 'grpc://h:1', peer_key_file: f":                  "",
		"protocol: tunnel, upstream: 'h:1', peer_key_file: f":                       "",
		"protocol: mongo, upstream: 'mongodb://a,b', peers: true, peer_key_file: f": "",
	} {
		_, err := Parse("f", []byte("gateways: [{name: a, listen: ':1', "+text+"}]"), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPeerKey(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		file, key string
	}{
		"least":      {strings.Repeat("k", 16) + "\n", strings.Repeat("k", 16)},
		"no newline": {strings.Repeat("k", 16), strings.Repeat("k", 16)},
		"newlines":   {strings.Repeat("k", 16) + "\n\n", strings.Repeat("k", 16) + "\n"},
		"most":       {strings.Repeat("k", 1024) + "\n", strings.Repeat("k", 1024)},
		"short":      {strings.Repeat("k", 15) + "\n", ""},
		"long":       {strings.Repeat("k", 1025), ""},
		"missing":    {"", ""},
	} {
		file := filepath.Join(dir, "key")
		_ = os.Remove(file)
		if c.file != "" {
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := Parse(filepath.Join(dir, "f"), []byte("gateways: [{name: a, protocol: tunnel, listen: '127.0.0.1:1', upstream: 'h:1', peer_key_file: key}]"), nil)
		if err != nil {
			t.Fatal(err)
		}
		key, err := cfg.PeerKey(&cfg.Gateways[0])
		switch {
		case c.key == "" && (err == nil || !strings.Contains(err.Error(), "head -c 32 /dev/urandom | base64")):
			t.Errorf("%s: %v", name, err)
		case c.key != "" && (err != nil || !bytes.Equal(key, []byte(c.key))):
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
}
