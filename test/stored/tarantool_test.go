package stored

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/test/testenv"
)

// tuples are those in a store, as its clients wrote them: id, body, note.
type tuples struct {
	Tuples       map[string][]tuple
	Dictionaries map[string]string // states, by number
	Listed       []listed
}

type tuple [3]any

func (v *tuples) compare(t *testing.T, c *tnt.Connection) {
	t.Helper()
	n := 0
	for space, all := range v.Tuples {
		for _, want := range all {
			id := uint(want[0].(float64))
			got, err := c.Do(tnt.NewSelectRequest(space).Key([]any{id})).Get()
			if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].([]any)[1:], want[1:]) {
				t.Errorf("%s %d reads as %.200q, %v; want %.200q", space, id, got, err, want)
			}
			n++
		}
	}
	if n < 40 {
		t.Errorf("only %d tuples were compared", n)
	}
}

func tntConnect(t *testing.T, addr string) *tnt.Connection {
	t.Helper()
	c, err := tnt.Connect(t.Context(), tnt.NetDialer{Address: addr}, tnt.Opts{Timeout: time.Minute})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// body returns a stored body of the space docs.
func body(t *testing.T, direct *tnt.Connection, id uint) string {
	t.Helper()
	got, err := direct.Do(tnt.NewSelectRequest("docs").Key([]any{id})).Get()
	must(t, err)
	return got[0].([]any)[1].(string)
}

// TestTarantool reads the tuples of a server with the functions that the earlier version has installed: by the gateway,
// by cinch.lua in the server, and after unpacking.
func TestTarantool(t *testing.T) {
	t.Parallel()
	v := parse[tuples](t, "tarantool/values.json")
	server := testenv.Tarantool(t, "")
	server.Kill()
	for _, pattern := range []string{"*.snap", "*.xlog"} {
		made, err := filepath.Glob(filepath.Join(server.Dir, pattern))
		must(t, err)
		for _, name := range made {
			must(t, os.Remove(name))
		}
	}
	snapshots, err := filepath.Glob(filepath.Join(version, "tarantool/*.snap"))
	if err != nil || len(snapshots) != 1 {
		t.Fatalf("snapshots: %q, %v", snapshots, err)
	}
	must(t, os.WriteFile(filepath.Join(server.Dir, filepath.Base(snapshots[0])), []byte(read(t, "tarantool/"+filepath.Base(snapshots[0]))), 0o600))
	must(t, server.Restart(t))
	url := "tarantool://" + server.Addr
	direct := tntConnect(t, server.Addr)
	number := dictOf(body(t, direct, 0))
	if number == 0 {
		t.Fatalf("the body names no dictionary: %.80q", body(t, direct, 0))
	}

	// With the functions of the earlier version, and with those of today.
	for range 2 {
		cinch(t, ok, "verify", url)
		hasDictionaries(t, url, v.Listed, v.Dictionaries)
		through := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tarantool", Upstream: url, Rules: read(t, "tarantool/rules.yaml")})
		c := tntConnect(t, through.Addr)
		v.compare(t, c)
		testenv.Eventually(t, "new values name the dictionary", func() bool {
			_, err := c.Do(tnt.NewReplaceRequest("docs").Tuple([]any{100, v.Tuples["docs"][1][1], "note"})).Get()
			must(t, err)
			return dictOf(body(t, direct, 100)) == number
		})
		_, err := c.Do(tnt.NewUpdateRequest("docs").Key([]any{100}).Operations(tnt.NewOperations().Splice(1, 0, 0, "spliced "))).Get()
		must(t, err)
		got, err := c.Do(tnt.NewSelectRequest("docs").Key([]any{100})).Get()
		if want := "spliced " + v.Tuples["docs"][1][1].(string); err != nil || got[0].([]any)[1] != want {
			t.Errorf("after a splice: %.200q, %v", got, err)
		}
		cinch(t, ok, "tarantool", "init", url)
	}
	_, unpause := resume(t, "tarantool", url, read(t, "tarantool/rules.yaml"))
	unpause()

	opened, err := direct.Do(tnt.NewEvalRequest(`local cinch, all = loadstring(...)(), {}
		for _, t in box.space.docs:pairs() do all[#all + 1] = {t.id, cinch.open(t.body), cinch.open(t.note)} end
		return all`).Args([]any{storetarantool.Module})).Get()
	must(t, err)
	for i, want := range v.Tuples["docs"] {
		if got := opened[0].([]any)[i].([]any); !reflect.DeepEqual(got[1:], want[1:]) {
			t.Errorf("cinch.lua opens %d as %.200q, want %.200q", i, got, want)
		}
	}
	cinch(t, ok, "unpack", url)
	v.compare(t, direct)
}
