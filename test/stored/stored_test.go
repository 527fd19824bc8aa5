package stored

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// version is the directory with the files of the version that wrote them, named after its commit.
const version = "testdata/be109abb"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read returns a file of the fixture.
func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(version, name))
	must(t, err)
	return string(text)
}

// parse parses a JSON file of the fixture.
func parse[T any](t testing.TB, name string) (v T) {
	t.Helper()
	must(t, json.Unmarshal([]byte(read(t, name)), &v))
	return v
}

// cinch runs the program, which must exit with one of the codes, and returns its standard output.
func cinch(t testing.TB, codes []int, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Cinch(t), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if !slices.Contains(codes, cmd.ProcessState.ExitCode()) {
		t.Fatalf("cinch %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return out.String()
}

var ok = []int{0}

// listed has the fields of a dictionary in `cinch dict ls --json` that must not change.
type listed struct {
	Number, SHA256, Place, State string
	Bytes                        int
	Managed                      *struct {
		Rule    string
		Current bool
	}
}

// hasDictionaries compares the dictionaries of a store with those that the earlier version has listed.
func hasDictionaries(t *testing.T, url string, want []listed, states map[string]string) {
	t.Helper()
	var got []listed
	must(t, json.Unmarshal([]byte(cinch(t, ok, "dict", "ls", url, "--json")), &got))
	text := func(all []listed) string {
		b, err := json.MarshalIndent(all, "", " ")
		must(t, err)
		return string(b)
	}
	if text(got) != text(want) || len(want) <= len(states) {
		t.Errorf("the store has the dictionaries %s\nwant %s", text(got), text(want))
	}
	for number, state := range states {
		i := slices.IndexFunc(got, func(l listed) bool { return l.Number == number })
		if i < 0 || got[i].State != state {
			t.Errorf("dictionary %s should be %s", number, state)
		}
		cinch(t, ok, "dict", "export", url, number, filepath.Join(t.TempDir(), "exported"))
	}
}

// resume starts a gateway with the rules of the fixture, which packs in the background, and checks that packing is
// paused, since the earlier version has paused it. It returns a function that ends the pause.
func resume(t *testing.T, protocol, url, rules string) (*testenv.GatewayServer, func()) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte(token), 0o600))
	g := testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: protocol, Upstream: url, Rules: rules, Settings: "pack: {background: true}",
		Process: "training: {poll: 50ms}", Admin: "token_file: " + token,
	})
	testenv.Eventually(t, "packing is paused", func() bool { return testenv.AdminMetric(t, g.Admin, "cinch_pack_paused") == 1 })
	return g, func() {
		t.Helper()
		if status, body := testenv.AdminAction(t, g.Admin, token, "pack-resume", `{"gateway": "test"}`); status != 200 {
			t.Errorf("pack-resume: %d %s", status, body)
		}
		testenv.Eventually(t, "packing continues", func() bool { return testenv.AdminMetric(t, g.Admin, "cinch_pack_paused") == 0 })
	}
}
