package testenv

import (
	"os"
	"strings"
	"testing"
)

func TestRedisAnswersAndRestarts(t *testing.T) {
	s := Redis(t, "--appendonly", "yes")
	if !AnswersPing("tcp", s.Addr) {
		t.Fatalf("%s does not answer", s.Addr)
	}
	if err := s.Restart(); err == nil {
		t.Error("a running server was started again")
	}
	pid := s.Pid()
	s.Kill()
	if AnswersPing("tcp", s.Addr) {
		t.Error("a killed server answers")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if !AnswersPing("tcp", s.Addr) || s.Pid() == pid {
		t.Error("the server did not come back")
	}
}

func TestRedisIsGoneAfterItsTest(t *testing.T) {
	var addr string
	t.Run("inner", func(t *testing.T) { addr = Redis(t).Addr })
	if addr != "" && AnswersPing("tcp", addr) {
		t.Errorf("%s outlived its test", addr)
	}
}

func TestRedisWithPasswordIsReady(t *testing.T) {
	Redis(t, "--requirepass", "secret")
}

func TestStartFailureSaysWhy(t *testing.T) {
	program := Program(t, "redis-server")
	s := &RedisServer{Dir: t.TempDir(), Port: FreePort(t), program: program, args: []string{"--no-such-option", "x"}}
	err := s.start()
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error does not show the server's output: %v", err)
	}
}

func TestSumSamples(t *testing.T) {
	page := "# HELP a_total x\n# TYPE a_total counter\na_total{k=\"1 2\"} 3\na_total{k=\"b\"} 4.5\na_totally 100\n"
	for name, want := range map[string]float64{"a_total": 7.5, `a_total{k="b"}`: 4.5, "a": 0} {
		if got, err := sumSamples(page, name); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
}

func TestConfigFileIndents(t *testing.T) {
	g := &GatewayServer{Addr: "127.0.0.1:1", Admin: "127.0.0.1:2", dir: t.TempDir()}
	g.cfg = GatewayConfig{Upstream: "127.0.0.1:3", Settings: "enabled: true", Rules: "- name: all\n  setting: lz4\n"}
	args, err := g.arguments()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(args[len(args)-1])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n    enabled: true\n", "\n      - name: all\n        setting: lz4\n", `upstream: "redis://127.0.0.1:3"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
