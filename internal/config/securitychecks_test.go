package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files with secrets that every user of the machine may read are reported.
func TestReadableSecrets(t *testing.T) {
	const withPassword = "gateways: [{name: g, protocol: redis, listen: 127.0.0.1:1, upstream: redis://u:secret@h, rules: [{setting: lz4}]}]\n"
	const without = "gateways: [{name: g, protocol: redis, listen: 127.0.0.1:1, upstream: redis://u@h, rules: [{setting: lz4}]}]\n"
	const withKey = "gateways: [{name: g, protocol: tunnel, listen: 127.0.0.1:1, upstream: 'h:1', peer_key_file: token}]\n"
	for _, c := range []struct {
		text             string
		mode, token, dir os.FileMode
		want             int
	}{
		{without, 0o644, 0o600, 0o755, 0},
		{without, 0o644, 0o644, 0o755, 1},
		{withPassword, 0o644, 0o600, 0o755, 1},
		{withPassword, 0o640, 0o640, 0o755, 0},
		{withPassword, 0o644, 0o644, 0o755, 2},
		{withPassword, 0o644, 0o644, 0o750, 0},
		{withKey, 0o644, 0o600, 0o755, 0},
		{withKey, 0o644, 0o644, 0o755, 2}, // it is the token too
	} {
		dir := filepath.Join(t.TempDir(), "etc")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write := func(name, text string, mode os.FileMode) string {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, mode); err != nil { // whatever the umask is
				t.Fatal(err)
			}
			return file
		}
		write("token", strings.Repeat("s", 32), c.token)
		file := write("cinch.yaml", "admin: {token_file: token}\n"+c.text, c.mode)
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, c.dir); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		ps := problems{c: cfg}
		cfg.addReadableSecrets(&ps)
		if len(ps.list) != c.want {
			t.Errorf("file %o, token %o, directory %o: %v", c.mode, c.token, c.dir, ps.list)
		}
	}
}

// Passwords are found in all forms of URLs that upstreams and shards may have.
func TestPasswordsOfUpstreams(t *testing.T) {
	for url, want := range map[string]bool{
		"redis://u:secret@h":                                  true,
		"redis://:secret@h":                                   true,
		"u:secret@h:6379":                                     true,
		"unix://u:secret@/a/b":                                true,
		"redis+cluster://u:secret@h:1,i:2":                    true,
		"redis+sentinel://h:1,i:2/m?sentinel_password=secret": true,
		"postgres://h/d?user=u&password=secret":               true,
		"redis://h:1":                                         false,
		"redis://u@h":                                         false,
		"h:6379":                                              false,
		"unix:///a:b":                                         false,
		"redis+cluster://u@h:1,i:2":                           false,
		"redis+sentinel://h:1,i:2/m?sentinel_user=u":          false,
		"postgres://u@h/d?sslmode=require":                    false,
		"mongodb://h1:1,h2:2/?replicaSet=r":                   false,
	} {
		for _, g := range []Gateway{{Upstream: url}, {Shards: []string{"none", url}}} {
			c := &Config{Gateways: []Gateway{g}}
			if got := c.hasPasswords(); got != want {
				t.Errorf("%s %s: %v", g.Upstream, g.Shards, got)
			}
		}
	}
}

// In a Kubernetes volume files are links, and the pod sets their mode.
func TestReadableSecretsOfVolumes(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..2026"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..2026", "token"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"..data": "..2026", "token": "..data/token"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if readableByAll(filepath.Join(dir, "token")) {
		t.Error("a file of a volume counts")
	}
}
