package search

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// servers start servers that load the module. The 8.x versions load that of 7.4.
var servers = map[string]func(*testing.T, ...string) *testenv.RedisServer{
	"stack": func(t *testing.T, args ...string) *testenv.RedisServer { return testenv.RedisStack(t, args...) },
	"8.2":   with("redis-8.2"),
	"8.6":   with("redis-8.6"),
}

func with(line string) func(*testing.T, ...string) *testenv.RedisServer {
	return func(t *testing.T, args ...string) *testenv.RedisServer {
		return testenv.RedisOf(t, line, append(testenv.RedisModules(t, "redisearch"), args...)...)
	}
}

type call = []any

// documents returns commands that store hashes, in each of which the default rule would compress three
// fields.
func documents(prefix string, n int) (calls []call) {
	for i := range n {
		vector := make([]byte, 0, 64*4)
		for d := range 64 {
			vector = binary.LittleEndian.AppendUint32(vector, math.Float32bits(float32(i*(1+d%3))))
		}
		calls = append(calls, call{
			"HSET", fmt.Sprintf("%s%d", prefix, i),
			"body", strings.Repeat(fmt.Sprintf("an article about search number%d ", i), 10),
			"tags", strings.TrimSuffix(strings.Repeat("red,blue,", 12), ",") + fmt.Sprintf(",only%d", i),
			"vector", vector,
			"note", strings.Repeat(fmt.Sprintf("a note that no index knows %d ", i), 12),
			"rank", i,
		})
	}
	return calls
}

func create(name, prefix string) call {
	return call{
		"FT.CREATE", name, "ON", "HASH", "PREFIX", 1, prefix, "SCHEMA", "body", "TEXT", "tags", "TAG", "rank", "NUMERIC", "SORTABLE",
		"vector", "VECTOR", "FLAT", 6, "TYPE", "FLOAT32", "DIM", 64, "DISTANCE_METRIC", "L2",
	}
}

// queries search by text, tag, number and vector, and load fields inside and outside the index.
func queries(name string) []call {
	near := make([]byte, 64*4)
	return []call{
		{"FT.SEARCH", name, "search", "SORTBY", "rank", "LIMIT", 0, 2},
		{"FT.SEARCH", name, "number1", "RETURN", 2, "note", "rank"},
		{"FT.SEARCH", name, "@tags:{only2}", "RETURN", 1, "tags"},
		{"FT.SEARCH", name, "@rank:[1 3]", "SORTBY", "rank", "NOCONTENT"},
		{"FT.SEARCH", name, "article", "SUMMARIZE", "FIELDS", 1, "body", "LEN", 4, "SORTBY", "rank", "RETURN", 1, "body"},
		{"FT.SEARCH", name, "*=>[KNN 2 @vector $v]", "PARAMS", 2, "v", near, "DIALECT", 2, "SORTBY", "__vector_score", "RETURN", 2, "rank", "__vector_score"},
		{"FT.AGGREGATE", name, "*", "LOAD", 3, "@body", "@note", "@rank", "APPLY", "strlen(@body)", "AS", "n", "APPLY", "strlen(@note)", "AS", "m", "SORTBY", 2, "@rank", "ASC"},
		{"FT.AGGREGATE", name, "*", "LOAD", 1, "@note", "APPLY", "substr(@note,0,6)", "AS", "begin", "GROUPBY", 1, "@begin", "REDUCE", "COUNT", 0, "AS", "n"},
		{"FT.AGGREGATE", name, "*", "LOAD", "*", "SORTBY", 2, "@rank", "DESC", "LIMIT", 0, 1},
		{"FT.TAGVALS", name, "tags"},
	}
}

func client(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func all(t *testing.T, c *goredis.Client, calls ...call) {
	t.Helper()
	for _, args := range calls {
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%.200q: %v", args, err)
		}
	}
}

// answers waits until n documents are indexed and returns the answers to all queries.
func answers(t *testing.T, c *goredis.Client, index string, n int) string {
	t.Helper()
	testenv.Eventually(t, fmt.Sprintf("%d documents are indexed", n), func() bool { return indexed(t.Context(), c, index) == n })
	return replies(t.Context(), c, index)
}

func replies(ctx context.Context, c *goredis.Client, index string) string {
	var b strings.Builder
	for _, q := range queries(index) {
		v, err := c.Do(ctx, q...).Result()
		fmt.Fprintf(&b, "%s %.40q: %q %v\n", q[0], q[2], leaves(v), err)
	}
	return b.String()
}

// leaves returns the elements of a reply, with innermost lists sorted: the server returns the fields of a
// large hash in any order.
func leaves(v any) (texts []string) {
	list, ok := v.([]any)
	if !ok {
		return []string{fmt.Sprint(v)}
	}
	flat := true
	for _, x := range list {
		_, nested := x.([]any)
		flat = flat && !nested
		texts = append(texts, leaves(x)...)
	}
	if flat {
		slices.Sort(texts)
	}
	return texts
}

// withoutTags removes the reply to FT.TAGVALS, which includes tags that no document has any more.
func withoutTags(replies string) string {
	found, _, _ := strings.Cut(replies, "FT.TAGVALS")
	return found
}

// indexed returns the number of documents in an index, -1 while it is being built.
func indexed(ctx context.Context, c *goredis.Client, index string) int {
	info, _ := c.Do(ctx, "FT.INFO", index).Slice()
	n, indexing := -1, ""
	for i := 0; i+1 < len(info); i += 2 {
		switch info[i] {
		case "num_docs":
			_, _ = fmt.Sscan(fmt.Sprint(info[i+1]), &n)
		case "indexing":
			indexing = fmt.Sprint(info[i+1])
		}
	}
	if indexing != "0" {
		return -1
	}
	return n
}

func same(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Errorf("direct:  %.300q\nthrough: %.300q", w[i], g[i])
		}
	}
}

// sealedFields counts the envelopes in hashes.
func sealedFields(t *testing.T, direct *goredis.Client, pattern string) (n int) {
	t.Helper()
	keys, err := direct.Keys(t.Context(), pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		for _, v := range direct.HVals(t.Context(), k).Val() {
			if envelope.IsSealed([]byte(v)) {
				n++
			}
		}
	}
	return n
}

const docs = 5

// expected returns the answers to all queries without a gateway.
func expected(t *testing.T, start func(*testing.T, ...string) *testenv.RedisServer) string {
	t.Helper()
	c := client(t, start(t).Addr)
	all(t, c, create("idx", "doc:"))
	all(t, c, documents("doc:", docs)...)
	want := answers(t, c, "idx", docs)
	for _, text := range []string{`["5" "doc:0"`, `["1" "doc:1"`, `"__vector_score"`} {
		if !strings.Contains(want, text) {
			t.Fatalf("without a gateway the queries find too little, not %q:\n%.3000s", text, want)
		}
	}
	return want
}

// With the default rule queries give the same answers as without a gateway, whether the index is created
// before the documents or after them.
func TestIndexThroughTheGateway(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			want := expected(t, start)
			server := start(t)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr})
			c, direct := client(t, gateway.Addr), client(t, server.Addr)
			t.Run("index first", func(t *testing.T) {
				all(t, c, create("idx", "doc:"))
				all(t, c, documents("doc:", docs)...)
				same(t, want, answers(t, c, "idx", docs))
				all(t, c, call{"FT.DROPINDEX", "idx", "DD"})
			})
			t.Run("documents first", func(t *testing.T) {
				all(t, c, documents("other:", docs)...)
				testenv.Eventually(t, "hashes are sealed when the index is gone", func() bool {
					all(t, c, documents("doc:", docs)...)
					return sealedFields(t, direct, "doc:*") > 0
				})
				all(t, c, create("idx", "doc:"))
				same(t, want, answers(t, c, "idx", docs))
				if n := sealedFields(t, direct, "other:*"); n == 0 {
					t.Error("hashes that no index covers are not sealed")
				}
				all(t, c, documents("doc:", docs)...)
				if n := sealedFields(t, direct, "doc:*"); n > 0 {
					t.Errorf("%d fields are sealed under the index", n)
				}
			})
		})
	}
}

// An index that is created directly, or through another gateway, is soon respected by all gateways, and
// values that they have compressed under it are decompressed.
func TestIndexMadeElsewhere(t *testing.T) {
	start := servers["stack"]
	want := expected(t, start)
	server := start(t)
	cfg := testenv.GatewayConfig{Upstream: server.Addr}
	first, second := testenv.Gateway(t, cfg), testenv.Gateway(t, cfg)
	direct := client(t, server.Addr)
	for _, maker := range []string{server.Addr, first.Addr} {
		both := documents("doc:", docs)
		all(t, client(t, first.Addr), both[:2]...)
		all(t, client(t, second.Addr), both[2:]...)
		if sealedFields(t, direct, "doc:*") == 0 {
			t.Fatal("nothing was sealed, so nothing is tested")
		}
		all(t, client(t, maker), create("idx", "doc:"))
		all(t, client(t, second.Addr), both[2:]...) // possibly before it has noticed the index
		for _, g := range []string{first.Addr, second.Addr} {
			c := client(t, g)
			testenv.Eventually(t, "queries answer as without a gateway", func() bool {
				return withoutTags(replies(t.Context(), c, "idx")) == withoutTags(want)
			})
		}
		testenv.Eventually(t, "the second gateway knows the index", func() bool {
			all(t, client(t, second.Addr), both...)
			return sealedFields(t, direct, "doc:*") == 0
		})
		same(t, withoutTags(want), withoutTags(answers(t, client(t, second.Addr), "idx", docs)))
		all(t, client(t, first.Addr), call{"FT.DROPINDEX", "idx", "DD"})
		testenv.Eventually(t, "both seal again", func() bool {
			all(t, client(t, first.Addr), call{"HSET", "doc:x", "body", strings.Repeat("text ", 100)})
			all(t, client(t, second.Addr), call{"HSET", "doc:y", "body", strings.Repeat("text ", 100)})
			return sealedFields(t, direct, "doc:[xy]") == 2
		})
		all(t, direct, call{"DEL", "doc:x", "doc:y"})
	}
}

// A gateway whose user may not list the indexes leaves hashes alone if the module is loaded.
func TestWithoutTheRightToLook(t *testing.T) {
	for _, test := range []struct {
		name   string
		server *testenv.RedisServer
		hashes bool // hashes are compressed
	}{
		{"module", servers["stack"](t), false},
		{"no module", testenv.RedisOf(t, "redis-7.4"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			direct := client(t, test.server.Addr)
			all(t, direct, call{"ACL", "SETUSER", "gw", "on", ">pw", "~cinch:dict:*", "&*", "+function|list", "+function|load"})
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: "redis://gw:pw@" + test.server.Addr})
			c := client(t, gateway.Addr)
			all(t, c, documents("doc:", docs)...)
			all(t, c, call{"SET", "s", strings.Repeat("text ", 100)})
			if n := sealedFields(t, direct, "doc:*"); n > 0 != test.hashes {
				t.Errorf("%d fields are sealed", n)
			}
			if got := direct.Get(t.Context(), "s").Val(); !envelope.IsSealed([]byte(got)) {
				t.Error("strings are not sealed")
			}
		})
	}
}
