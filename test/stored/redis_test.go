package stored

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy/published"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

func connect(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Minute})
	t.Cleanup(func() { c.Close() })
	return c
}

// values are those in a store, as its clients wrote them.
type values struct {
	Values struct {
		String map[string][]byte
		Hash   map[string]map[string][]byte
		Stream map[string][][]byte
		List   map[string][][]byte
	}
	Dictionaries map[string]string // states, by number
	Listed       []listed
}

// compare reads every value.
func (v *values) compare(t *testing.T, c *goredis.Client) {
	t.Helper()
	same := func(key string, got string, err error, want []byte) {
		t.Helper()
		if err != nil || got != string(want) {
			t.Errorf("%s reads as %.80q, %v; want %.80q", key, got, err, want)
		}
	}
	n := 0
	for key, want := range v.Values.String {
		got, err := c.Get(t.Context(), key).Result()
		same(key, got, err, want)
		n++
	}
	for key, want := range v.Values.Hash {
		got, err := c.HGetAll(t.Context(), key).Result()
		if len(got) != len(want) {
			t.Errorf("%s has %d fields, %v", key, len(got), err)
		}
		for field, value := range want {
			same(key+" "+field, got[field], err, value)
			n++
		}
	}
	for key, want := range v.Values.Stream {
		got, err := c.XRange(t.Context(), key, "-", "+").Result()
		if len(got) != len(want) {
			t.Fatalf("%s has %d entries, %v", key, len(got), err)
		}
		for i := range want {
			same(key, got[i].Values["body"].(string), err, want[i])
			n++
		}
	}
	for key, want := range v.Values.List {
		got, err := c.LRange(t.Context(), key, 0, -1).Result()
		if len(got) != len(want) {
			t.Fatalf("%s has %d elements, %v", key, len(got), err)
		}
		for i := range want {
			same(key, got[i], err, want[i])
			n++
		}
	}
	if n < 60 {
		t.Errorf("only %d values were compared", n)
	}
}

// serverFrom starts a Redis with the fixture's snapshot.
func serverFrom(t *testing.T, name string, args ...string) *testenv.RedisServer {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "dump.rdb"), []byte(read(t, name+"/dump.rdb")), 0o600))
	return testenv.Redis(t, append([]string{"--dir", dir, "--dbfilename", "dump.rdb"}, args...)...)
}

// dictOf returns the number of the dictionary that a stored value names, 0 if none.
func dictOf(stored string) uint32 {
	h, err := envelope.ParseHeader([]byte(stored))
	if err != nil {
		return 0
	}
	return h.Dict
}

// TestRedis reads the values of a server with functions, where dictionaries are libraries, and of one without, where
// they are keys.
func TestRedis(t *testing.T) {
	for name, args := range map[string][]string{"redis": nil, "redis-keys": {"--rename-command", "FUNCTION", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := parse[values](t, name+"/values.json")
			server := serverFrom(t, name, args...)
			direct := connect(t, server.Addr)
			before := direct.Get(t.Context(), "reading:default:0").Val()
			if dictOf(before) == 0 || dictOf(direct.Get(t.Context(), "reading:app:0").Val()) == 0 {
				t.Fatalf("the values name no dictionary: %.80q", before)
			}
			cinch(t, ok, "verify", server.URL())
			hasDictionaries(t, server.URL(), v.Listed, v.Dictionaries)
			hasPolicy(t, direct)

			g, unpause := resume(t, "redis", server.URL(), read(t, name+"/rules.yaml"))
			through := connect(t, g.Addr)
			v.compare(t, through)
			must(t, direct.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">password", "~*", "&*", "+@all").Err())
			app := goredis.NewClient(&goredis.Options{Addr: g.Addr, Username: "app", Password: "password"})
			t.Cleanup(func() { app.Close() })
			v.compare(t, app)
			for login, c := range map[string]*goredis.Client{"default": through, "app": app} {
				want := dictOf(direct.Get(t.Context(), "reading:"+login+":0").Val())
				testenv.Eventually(t, "new values of "+login+" name its dictionary", func() bool {
					must(t, c.Set(t.Context(), "reading:new", v.Values.String["reading:app:1"], 0).Err())
					return dictOf(direct.Get(t.Context(), "reading:new").Val()) == want
				})
			}
			unpause()
			v.compare(t, through)
			cinch(t, ok, "verify", server.URL())
		})
	}
}

// hasPolicy compares the published policy with the fixture's rules, and the records with the dictionaries that values
// name.
func hasPolicy(t *testing.T, direct *goredis.Client) {
	t.Helper()
	dicts := storeredis.NewDicts(storeredis.DictsOptions{Client: direct, Log: slog.New(slog.DiscardHandler)})
	text, _, err := dicts.Record(t.Context(), published.PolicyRecord)
	must(t, err)
	doc, err := published.Parse(text)
	if err != nil || doc.Off || len(doc.Rules) != 8 || doc.By == "" || doc.At.IsZero() {
		t.Fatalf("the published policy is %+v, %v", doc, err)
	}
	for i, want := range map[int]published.Rule{
		0: {Name: "readings", Key: "reading:*", Types: []string{"string", "hash", "stream"}, Codec: "zstd", Level: 3, Record: doc.Rules[0].Record},
		3: {Name: "s2", Key: "s2:*", Codec: "s2", Level: 1},
		7: {Name: "rest", Key: "*", Types: []string{"string", "hash", "stream"}, Codec: "zstd", Level: 3},
	} {
		got := doc.Rules[i]
		want.MinSize, want.MaxSize, want.MinGain = got.MinSize, got.MaxSize, got.MinGain
		if want.Types == nil {
			want.Types = got.Types
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("rule %d is published as %+v, want %+v", i, got, want)
		}
	}
	for login, key := range map[string]string{"": "reading:default:0", "app": "reading:app:0"} {
		text, _, err := dicts.Record(t.Context(), doc.Rules[0].RecordFor(login))
		must(t, err)
		current, err := published.Current(text)
		if number := dictOf(direct.Get(t.Context(), key).Val()); err != nil || current.Dict != number {
			t.Errorf("the record of login %q names %08x, %v; %s names %08x", login, current.Dict, err, key, number)
		}
	}
}

// TestUnpack decompresses the values in the store. Those of another library need a rule.
func TestUnpack(t *testing.T) {
	t.Parallel()
	v := parse[values](t, "redis/values.json")
	server := serverFrom(t, "redis")
	cinch(t, []int{0, 3}, "unpack", server.URL())
	for key := range v.Values.String {
		if strings.HasPrefix(key, "django:") || strings.HasPrefix(key, "magic:") {
			delete(v.Values.String, key)
		}
	}
	clear(v.Values.Stream) // entries of streams can't be replaced
	v.compare(t, connect(t, server.Addr))
}

// TestPackState continues a pass of the packer.
func TestPackState(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	direct := connect(t, server.Addr)
	value := strings.Repeat("text that repeats ", 20)
	must(t, direct.Set(t.Context(), "later:1", value, 0).Err())
	state := filepath.Join(t.TempDir(), "pack.state.json")
	text := strings.ReplaceAll(read(t, "redis/pack.state.json"), "6379", fmt.Sprint(server.Port))
	must(t, os.WriteFile(state, []byte(text), 0o600))
	cinch(t, ok, "pack", server.URL(), "--rule", "key=later:*,setting=zstd-3", "--state", state)
	if !envelope.IsSealed([]byte(direct.Get(t.Context(), "later:1").Val())) {
		t.Error("the value is not packed")
	}
}

// past is an answer of /api/history.
type past struct {
	From, To time.Time
	Series   []series
}

type series struct {
	Name, Gateway, Rule, Kind string
	Values                    []*float64
}

// TestHistory reads recorded counters.
func TestHistory(t *testing.T) {
	t.Parallel()
	want := parse[past](t, "redis/history.json")
	dir := filepath.Join(t.TempDir(), "history")
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(version, "redis/history"))))
	server := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.URL(), Process: "history: {path: " + dir + "}"})
	from, to := want.From.Format(time.RFC3339Nano), want.To.Format(time.RFC3339Nano)
	status, body := testenv.AskAdmin(t, g.Admin, "/api/history?step=10s&from="+url.QueryEscape(from)+"&to="+url.QueryEscape(to))
	var got past
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, body)
	}
	if len(want.Series) < 40 {
		t.Errorf("the earlier version has recorded %d series", len(want.Series))
	}
	for _, s := range want.Series {
		if !slices.ContainsFunc(got.Series, func(o series) bool { return reflect.DeepEqual(o, s) }) {
			t.Errorf("not as recorded: %+v", s)
		}
	}
	rows := func(text string) map[string]row {
		var report struct {
			Rows []row
		}
		must(t, json.Unmarshal([]byte(text), &report))
		all := map[string]row{}
		for _, r := range report.Rows {
			if r.Raw > 0 {
				all[r.Rule] = r
			}
		}
		return all
	}
	then := rows(read(t, "redis/report.json"))
	now := rows(cinch(t, ok, "report", g.Admin, "--from", from, "--to", to, "--json"))
	if len(then) < 7 || !reflect.DeepEqual(now, then) {
		t.Errorf("the report has the rows %+v\nwant %+v", now, then)
	}
}

// row is a rule's row in a report.
type row struct {
	Rule   string
	Raw    float64 `json:"raw_bytes"`
	Stored float64 `json:"stored_bytes"`
	Saved  float64 `json:"saved_bytes"`
	CPU    float64 `json:"cpu_seconds"`
}
