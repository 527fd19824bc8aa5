package grpc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// client runs the scenario against addr and prints one line per call: name, status code, message, initial
// and trailing metadata, and the received bytes.
type client struct {
	name string
	run  func(t *testing.T, addr, ca string) string
}

var foreign = []client{
	{"python", func(t *testing.T, addr, ca string) string {
		return program(t, testenv.Python(t, "python/requirements.txt"), "python/scenario.py", addr, ca, scenarioFile(t))
	}},
	{"node", func(t *testing.T, addr, ca string) string {
		path := "NODE_PATH=" + testenv.NodeModules(t, "node/package.json")
		return program(t, "env", path, testenv.Program(t, "node"), "node/scenario.cjs", addr, ca, scenarioFile(t))
	}},
}

func scenarioFile(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestForeignClients(t *testing.T) {
	t.Parallel()
	testenv.NeedsPrograms(t)
	calls := scenarioLen(t)
	wires, clients := []*certificates{nil}, foreign[:1]
	if testenv.IsFull() {
		wires, clients = append(wires, newCertificates(t)), foreign
	}
	for _, wire := range wires {
		for _, c := range clients {
			t.Run(wireName(wire)+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				compareRoutes(t, c, wire, calls)
			})
		}
	}
}

func scenarioLen(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	var calls []json.RawMessage
	if err := json.Unmarshal(text, &calls); err != nil || len(calls) < 30 {
		t.Fatalf("a scenario of %d calls: %v", len(calls), err)
	}
	return len(calls)
}

// compareRoutes runs the scenario on every route and compares the results with those of the first, the
// direct one. With TLS the route with one gateway is left out; without CINCH_FULL=1 only the direct one and
// the link are used.
func compareRoutes(t *testing.T, c client, wire *certificates, calls int) {
	ca := ""
	if wire != nil {
		ca = wire.ca
	}
	var want, wantSeen string
	for _, r := range routes {
		if (wire != nil || !testenv.IsFull()) && r.gateways == 1 || !testenv.IsFull() && r.gateways == 2 && !r.link {
			continue
		}
		server := startScenarioServer(t, wire)
		got := c.run(t, r.addr(t, server.addr, wire), ca)
		seen := server.seen(t, calls)
		if r.gateways == 0 {
			want, wantSeen = got, seen
			if n := strings.Count(want, "\n"); n != calls {
				t.Fatalf("%d of %d calls ran directly:\n%s", n, calls, want)
			}
			continue
		}
		compareLines(t, r.name+", client", want, got)
		compareLines(t, r.name+", server", wantSeen, seen)
	}
}

func compareLines(t *testing.T, what, direct, through string) {
	t.Helper()
	want, got := strings.Split(direct, "\n"), strings.Split(through, "\n")
	differences := 0
	for i := range max(len(want), len(got)) {
		w, g := lineAt(want, i), lineAt(got, i)
		if w == g {
			continue
		}
		if differences++; differences <= 20 {
			t.Errorf("%s: line %d differs\n direct:  %.600s\n through: %.600s", what, i+1, w, g)
		}
	}
	if differences > 0 {
		t.Errorf("%s: %d of %d lines differ", what, differences, len(want)-1)
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// TestScenarioIsDeterministic checks that two direct runs of the scenario do not differ either.
func TestScenarioIsDeterministic(t *testing.T) {
	testenv.Full(t)
	calls := scenarioLen(t)
	for _, c := range foreign {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one, two := startScenarioServer(t, nil), startScenarioServer(t, nil)
			first, second := c.run(t, one.addr, ""), c.run(t, two.addr, "")
			compareLines(t, "client", first, second)
			compareLines(t, "server", one.seen(t, calls), two.seen(t, calls))
		})
	}
}
