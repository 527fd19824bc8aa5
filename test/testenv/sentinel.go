package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// SentinelServer is a real Redis Sentinel. It belongs to one test.
type SentinelServer struct {
	Addr string // 127.0.0.1:port
}

// Sentinels starts n Sentinels that monitor primary under a name, with a majority as quorum. It waits until
// they know its replicas and each other.
func Sentinels(t testing.TB, n int, name string, primary *RedisServer, replicas int) []*SentinelServer {
	t.Helper()
	var all []*SentinelServer
	for range n {
		all = append(all, startSentinel(t, name, primary, n/2+1))
	}
	for _, s := range all {
		r := &RedisServer{Addr: s.Addr}
		Eventually(t, "the Sentinels know each other", func() bool {
			m := map[any]any{}
			list, _ := do(t, r, "sentinel", "master", name).([]any)
			for pair := range slices.Chunk(list, 2) {
				m[pair[0]] = pair[1]
			}
			return m["num-slaves"] == strconv.Itoa(replicas) && m["num-other-sentinels"] == strconv.Itoa(n-1) && m["flags"] == "master"
		})
	}
	return all
}

func startSentinel(t testing.TB, name string, primary *RedisServer, quorum int) *SentinelServer {
	t.Helper()
	program := Program(t, "redis-server")
	var err error
	for range StartTries {
		dir, port := t.TempDir(), FreePort(t)
		s := &SentinelServer{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
		conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %d %d\n"+
			"sentinel down-after-milliseconds %[3]s 1000\nsentinel failover-timeout %[3]s 3000\n", port, dir, name, primary.Port, quorum)
		path := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		var p *Process
		if p, err = StartProcess(dir, nil, program, path, "--sentinel"); err != nil {
			continue
		}
		if err = p.WaitReady(func() bool { return AnswersPing("tcp", s.Addr) }); err == nil {
			t.Cleanup(func() { p.Kill() })
			return s
		}
		p.Kill()
	}
	t.Fatalf("sentinel: %v", err)
	return nil
}
