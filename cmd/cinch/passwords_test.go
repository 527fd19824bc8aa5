package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// runCommand runs a command line in this process.
func runCommand(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	before := os.Getenv(config.PasswordFileVariable)
	defer func() { _ = os.Setenv(config.PasswordFileVariable, before) }() // the flag sets it
	var b bytes.Buffer
	code = run(args, strings.NewReader(""), &b, &b)
	return code, b.String()
}

// A store's password is read from a file or a variable. It appears neither on the command line nor in written
// files.
func TestPasswordsOfCommands(t *testing.T) {
	server := testenv.Redis(t)
	plain := redis.NewClient(&redis.Options{Addr: server.Addr})
	if err := plain.ConfigSet(t.Context(), "requirepass", "a secret:/@").Err(); err != nil { // now, so that the helper finds it ready
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	for i := range 100 {
		text := fmt.Sprintf(`{"id":%d,"name":"customer number %d","status":"active","plan":"business","country":"Austria"}`, i, i*7919)
		if err := plain.Set(t.Context(), fmt.Sprint("customer:", i), text, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "passwords")
	if err := os.WriteFile(file, []byte("127.0.0.1:*:default:a secret\\:/@\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "redis://default@" + server.Addr
	if code, out := runCommand(t, "dict", "ls", "redis://"+server.Addr); code == exitOK {
		t.Errorf("without a password: %s", out)
	}
	if code, out := runCommand(t, "dict", "ls", url, "--password-file", file); code != exitOK {
		t.Errorf("by a flag: %d %s", code, out)
	}
	if code, out := runCommand(t, "dict", "ls", url); code == exitOK {
		t.Errorf("the flag holds for the next command: %s", out)
	}
	t.Setenv(config.PasswordVariable, "a secret:/@")
	if code, out := runCommand(t, "dict", "ls", url); code != exitOK {
		t.Errorf("by a variable: %d %s", code, out)
	}
	t.Setenv(config.PasswordVariable, "")
	t.Setenv(config.PasswordFileVariable, file)
	if code, out := runCommand(t, "verify", url); code != exitOK {
		t.Errorf("verify: %d %s", code, out)
	}
	made := filepath.Join(dir, "cinch.yaml")
	if code, out := runCommand(t, "plan", url, "--max-time", "15m", "--reads", "1000", "--candidates", "lz4,zstd-3", "--write", made); code != exitOK {
		t.Errorf("plan: %d %s", code, out)
	}
	if text, err := os.ReadFile(made); err != nil || (strings.Contains(string(text), "secret") || !strings.Contains(string(text), "default@")) {
		t.Errorf("the plan's configuration is\n%s", text)
	}

	if code, out := runCommand(t, "pack", url, "--rule", "setting=zstd-3"); code != exitOK {
		t.Errorf("pack: %d %s", code, out)
	}

	yaml := filepath.Join(dir, "own.yaml")
	text := "gateways: [{name: a, protocol: redis, listen: 127.0.0.1:0, upstream: \"" + url + "\", rules: [{setting: zstd-3}]}]\n"
	if err := os.WriteFile(yaml, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := loadConfig(yaml, nil, nil)
	if err != nil || !strings.Contains(cfg.Gateways[0].Upstream, "default:a%20secret") {
		t.Errorf("the configuration says %+v, %v", cfg, err)
	}
	if code, out := runCommand(t, "config", "show", yaml); code != exitOK || strings.Contains(out, "secret") {
		t.Errorf("config show: %d %s", code, out)
	}
	if err := os.Chmod(file, 0o604); err != nil {
		t.Fatal(err)
	}
	if code, out := runCommand(t, "dict", "ls", url); code != exitConfig || !strings.Contains(out, "chmod 600") {
		t.Errorf("a file that other users may read: %d %s", code, out)
	}
}
