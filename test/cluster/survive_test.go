package cluster

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	otherClients = flag.Bool("cluster.clients", false, "run other languages' clients too; they take a minute or two")
	rounds       = flag.Int("cluster.rounds", 2, "how often slots move, a replica takes over and a primary is killed under other languages' clients")
)

func needsClients(t *testing.T) {
	t.Helper()
	if !*otherClients {
		t.Skip("run with -cluster.clients")
	}
}

// TestClientsSurvive runs other languages' clients, in cluster mode through gateways, while slots move,
// replicas take over and primaries are killed. Every acknowledged write must still be there.
func TestClientsSurvive(t *testing.T) {
	needsClients(t)
	nodes := testenv.Cluster(t, 3, 3)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes[:2]), Race: true, Force: true})
	_ = throughEach(t, gateway, nodes, 2)
	programs := []*program{
		startProgram(t, gateway, "redis-py", []string{testenv.Python(t, "../clients/python/requirements.txt"), "../clients/python/workload.py"}),
		startProgram(t, gateway, "glide", []string{testenv.Python(t, "../clients/python/requirements.txt"), "../clients/python/workload.py"}),
		startProgram(t, gateway, "lettuce", javaWorkload(t)),
		startProgram(t, gateway, "jedis", javaWorkload(t)),
	}
	c := newClusterState(t, nodes)
	tell := func(order, answer string) {
		for _, p := range programs {
			p.tell(t, order, answer)
		}
	}
	for i := range *rounds {
		for _, p := range programs {
			c.moveSlot(fmt.Sprintf("{%s%d}", p.name, i%2))
		}
		c.takeOver(i % 3)
		c.kill((i+1)%3, func() { tell("pause", "paused") }, func() { tell("resume", "resumed") })
	}
	tell("stop", "stopped")
	direct := map[string]bool{}
	for _, n := range nodes {
		direct[n.Addr] = true
	}
	for _, p := range programs {
		p.finish(t, direct)
	}
	t.Logf("%.0f values sealed, %.0f guarded commands", gateway.Metric(t, "cinch_values_sealed_total"), gateway.Metric(t, "cinch_guarded_commands_total"))
	if gateway.Metric(t, "cinch_values_sealed_total") < 400 {
		t.Error("values were not sealed")
	}
}

func javaWorkload(t *testing.T) []string {
	const dir = "../clients/java/"
	return []string{testenv.Program(t, "java"), "-Xmx128m", "-cp", testenv.JavaClasses(t, dir+"pom.xml", dir+"Workload.java"), "Workload"}
}

// program is a running client program; see test/clients/python/workload.py for the commands that it reads.
type program struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

func startProgram(t *testing.T, gateway *testenv.GatewayServer, name string, command []string) *program {
	t.Helper()
	host, port, _ := net.SplitHostPort(gateway.Addr)
	if strings.HasPrefix(command[1], ".") {
		command[1], _ = filepath.Abs(command[1])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	p := &program{name: name, cmd: exec.CommandContext(ctx, command[0], append(command[1:], host, port, name, name)...)}
	p.cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.await(t, "ready")
	return p
}

func (p *program) await(t *testing.T, answer string) {
	t.Helper()
	for p.out.Scan() {
		if p.out.Text() == answer {
			return
		}
	}
	_ = p.cmd.Wait()
	t.Fatalf("%s ended before it said %s\n%.3000s", p.name, answer, p.stderr.String())
}

func (p *program) tell(t *testing.T, order, answer string) {
	t.Helper()
	if _, err := io.WriteString(p.in, order+"\n"); err != nil {
		t.Fatalf("%s: %v\n%.3000s", p.name, err, p.stderr.String())
	}
	p.await(t, answer)
}

var summary = regexp.MustCompile(`^done (\d+) unknown (\d+)$`)

// finish reads the rest of the program's output.
func (p *program) finish(t *testing.T, direct map[string]bool) {
	t.Helper()
	ended := false
	for p.out.Scan() {
		what, text, _ := strings.Cut(p.out.Text(), " ")
		switch what {
		case "wrong":
			t.Errorf("%s: %s", p.name, text)
		case "node":
			if direct[text] {
				t.Errorf("%s was told of the node %s", p.name, text)
			}
		case "done":
			m := summary.FindStringSubmatch(p.out.Text())
			done, _ := strconv.Atoi(m[1])
			ended = done >= 100
			t.Logf("%s: %s operations, %s of unknown fate", p.name, m[1], m[2])
		}
	}
	if err := p.cmd.Wait(); err != nil || !ended {
		t.Errorf("%s: %v; it worked: %v\n%.3000s", p.name, err, ended, p.stderr.String())
	}
}
