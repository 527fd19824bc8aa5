package config

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// GuardsLoopback reports whether the gateway has to refuse clients of other machines when its server is on
// this machine and requires no authentication; see gateway.LoopbackGuard. There is no such protection for
// other protocols.
func (g *Gateway) GuardsLoopback() bool {
	return g.supportsLogin() && !g.AllowOpenListener && !g.requiresClientCert()
}

// OpensLoopback reports whether other machines reach the gateway without a certificate, and through it a
// server on this machine. It does not check whether that server requires authentication.
func (g *Gateway) OpensLoopback(upstreams ...endpoint.Upstream) bool {
	if !g.supportsLogin() || g.requiresClientCert() || endpoint.OnLoopback(g.Listen) {
		return false
	}
	for _, up := range upstreams {
		if up.OnLoopback() {
			return true
		}
	}
	return false
}

func (g *Gateway) supportsLogin() bool {
	return g.Protocol == Redis || g.Protocol == Mongo || g.Protocol == Tarantool
}

func (g *Gateway) requiresClientCert() bool { return g.TLS != nil && g.TLS.ClientCA != "" }

const openListenerHint = "set a password in the server, listen on 127.0.0.1, set tls.client_ca, or allow it with allow_open_listener: true (--allow-open-listener)"

// OpenListenerError returns the error for a gateway for which OpensLoopback reports true and whose server requires no
// authentication.
func (c *Config) OpenListenerError(g *Gateway, upstream string) error {
	ps := problems{c: c}
	ps.add(g.path+".listen", openListenerHint,
		"other machines would reach %s through %s: the server requires no password and otherwise only this machine reaches it", upstream, g.Listen)
	return ps.err()
}

// OpenListenerWarning returns the warning for a gateway for which OpensLoopback reports true, if it is unknown whether
// the server requires authentication.
func (c *Config) OpenListenerWarning(g *Gateway, upstream string) Problem {
	ps := problems{c: c}
	ps.add(g.path+".listen", openListenerHint, "serve will not start with it if %s, which is on this machine, requires no password", upstream)
	return ps.list[0]
}

// addReadableSecrets reports files with secrets that every user of the machine may read, such as those of
// mode 0644. It leaves out files of Kubernetes volumes, whose mode the pod sets: 0644 unless defaultMode says
// otherwise.
func (c *Config) addReadableSecrets(ps *problems) {
	if file := c.AdminToken(); file != "" && readableByAll(file) {
		ps.add("admin.token_file", "chmod 600 "+file, "other users of this machine may read the token in %s", file)
	}
	for i := range c.Gateways {
		if file := c.path(c.Gateways[i].PeerKeyFile); file != "" && readableByAll(file) {
			ps.add(c.Gateways[i].path+".peer_key_file", "chmod 600 "+file, "other users of this machine may read the key in %s", file)
		}
	}
	if c.hasSecrets && readableByAll(c.file) {
		ps.add("gateways", "chmod 600 "+c.file+", or put them into a file that "+PasswordFileVariable+" names",
			"other users of this machine may read the passwords in %s", c.file)
	}
}

// hasPasswords reports whether upstreams have passwords.
func (c *Config) hasPasswords() bool {
	for i := range c.Gateways {
		g := &c.Gateways[i]
		for _, text := range append([]string{g.Upstream}, g.Shards...) {
			if shown := RedactURL(text); strings.Contains(shown, ":"+redacted+"@") || strings.Contains(shown, "password="+redacted) {
				return true
			}
		}
	}
	return false
}

// readableByAll reports whether users other than the owner and its group may read a file.
func readableByAll(file string) bool {
	if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "..data/") {
		return false // in a Kubernetes volume
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 {
		return false
	}
	dir, err := filepath.Abs(file)
	for err == nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false // other users can't reach it
		}
	}
	return true
}
