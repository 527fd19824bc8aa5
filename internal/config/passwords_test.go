package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Passwords are added to URLs that name a user and no password, by host, port and user.
func TestPasswords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	const text = "# of the cache\ncache:6379:cinch:s3cret\n*:3301:admin:a\\:b\\\\c:d\n[::1]:*:*:v6\n::1:*:*:no\ncache:*:*:other\n/run/redis.sock::cinch:no\n"
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "[::1]", `\:\:1`)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ReadPasswords(func(name string) string { return map[string]string{PasswordFileVariable: file}[name] })
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		"redis://cinch@cache":                      "redis://cinch:s3cret@cache",
		"redis://cinch@CACHE:6379/0":               "redis://cinch:s3cret@CACHE:6379/0",
		"redis://Cinch@cache":                      "redis://Cinch:other@cache",
		"rediss://cinch@cache:6380":                "rediss://cinch:other@cache:6380",
		"redis://cinch:mine@cache":                 "redis://cinch:mine@cache",
		"redis://cinch:@cache":                     "redis://cinch:@cache",
		"redis://cache":                            "redis://cache",
		"redis://cinch@other":                      "redis://cinch@other",
		"redis+cluster://cinch@cache,b,c":          "redis+cluster://cinch:s3cret@cache,b,c",
		"tarantool://admin@db1":                    "tarantool://admin:a%3Ab%5Cc%3Ad@db1",
		"tarantool://admin@[::1]:3309":             "tarantool://admin:v6@[::1]:3309",
		"mongodb://me@cache:27017/?authSource=a@b": "mongodb://me:other@cache:27017/?authSource=a@b",
		"http://me@cache/api":                      "http://me:other@cache/api",
		"ftp://me@cache":                           "ftp://me@cache",
		"127.0.0.1:6380=redis://cinch@cache:6379":  "127.0.0.1:6380=redis://cinch:s3cret@cache:6379",
		"unix:/run/r.sock=redis://cinch@cache":     "unix:/run/r.sock=redis://cinch:s3cret@cache",
		"unix:///run/r.sock=redis://cinch@cache":   "unix:///run/r.sock=redis://cinch:s3cret@cache",
		"unix:///run/r.sock=unix://cinch@/run/s":   "unix:///run/r.sock=unix://cinch@/run/s",
		"unix:///run/a=b.sock":                     "unix:///run/a=b.sock",
		"/tmp/a=b.rdb":                             "/tmp/a=b.rdb",
		"key=x://y,setting=zstd-3":                 "key=x://y,setting=zstd-3",
	} {
		if got := p.FillArgument(raw); got != want {
			t.Errorf("%s became %s, not %s", raw, got, want)
		}
	}
	c := Config{Gateways: []Gateway{{Upstream: "tarantool://admin@db1", Shards: []string{"tarantool://admin@db2"}}}}
	if c.FillPasswords(p); !strings.Contains(c.Gateways[0].Upstream, "a%3Ab") || !strings.Contains(c.Gateways[0].Shards[0], "a%3Ab") {
		t.Errorf("%+v", c.Gateways)
	}
}

// A file may hold one password for all; a world-readable or unreadable file is refused.
func TestPasswordFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	read := func(text string, mode os.FileMode) (*Passwords, error) {
		_ = os.Remove(file) // it may be read-only
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return ReadPasswords(func(name string) string {
			return map[string]string{PasswordFileVariable: file, PasswordVariable: "of the variable"}[name]
		})
	}
	if p, err := read("p:w/ d\n", 0o440); err != nil || p.Fill("redis://u@h") != "redis://u:p%3Aw%2F%20d@h" {
		t.Error(p, err)
	}
	if p, err := read("h:*:*:x\n", 0o600); err != nil || p.Fill("redis://u@h") != "redis://u:x@h" || p.Fill("redis://u@i") != "redis://u:of%20the%20variable@i" {
		t.Error(p, err)
	}
	for text, mode := range map[string]os.FileMode{"h:*:*:x\n": 0o644, "h:*:*:x\nh:x\n": 0o600} {
		if _, err := read(text, mode); err == nil || strings.Contains(err.Error(), ":x") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadPasswords(func(string) string { return file + ".missing" }); err == nil {
		t.Error("a file that is not there passes")
	}
	var none Passwords
	if got := none.Fill("redis://u@h"); got != "redis://u@h" {
		t.Error(got)
	}
}
