package redis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// foreignRules compresses values of GLIDE under app: and bare:; clients get those under bare: plain.
func foreignRules(t *testing.T) func(*Config) {
	t.Helper()
	glide, err := clientformat.Named("glide")
	if err != nil {
		t.Fatal(err)
	}
	zstd := codec.Setting{Codec: codec.Zstd, Level: 19}
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "app", Key: "app:*", Setting: zstd, MinGain: policy.AnyGain, Formats: glide},
		{Name: "bare", Key: "bare:*", Setting: zstd, MinGain: policy.AnyGain, Formats: glide, ToPlain: true},
		{Name: "rest", Setting: zstd},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *Config) { cfg.Policy = rules }
}

// menu returns JSON of some kilobytes that level 19 compresses clearly better than level 1.
func menu(i int) []byte {
	var b bytes.Buffer
	r := rand.New(rand.NewPCG(uint64(i), 0))
	words := strings.Fields("rice bean curry soup bread salad noodle pepper lime mango basil onion")
	for n := range 150 {
		fmt.Fprintf(&b, `{"id":%d,"name":"%s %s with %s","price":%d,"tags":["%s"]},`, n, words[r.IntN(12)], words[r.IntN(12)], words[r.IntN(12)], r.IntN(1000), words[r.IntN(4)])
	}
	return b.Bytes()
}

// byGlide returns what GLIDE stores for a value. The gateway compresses LZ4 values further.
func byGlide(t *testing.T, content []byte, f clientformat.Format) []byte {
	t.Helper()
	out, err := clientformat.Append(nil, f, 1, content, codec.New(codec.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func contentOf(t *testing.T, f clientformat.Format, stored []byte) []byte {
	t.Helper()
	out, err := clientformat.Open(nil, f, stored, 1<<20)
	if err != nil {
		t.Fatalf("%v: %.40q", err, stored)
	}
	return out
}

func TestForeignValues(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, foreignRules(t))
	direct, through := clientOf(t, sock), clientOf(t, path)
	for _, f := range []clientformat.Format{clientformat.GlideZstd, clientformat.GlideLZ4} {
		content := menu(int(f))
		value := byGlide(t, content, f)
		key := "app:" + f.String()
		must(t, through.Set(ctx, key, value, 0).Err())
		must(t, through.HSet(ctx, key+":h", "field", value, "short", "x").Err())
		stored := []byte(direct.Get(ctx, key).Val())
		if h, err := envelope.ParseHeader(stored); err != nil || h.Foreign.Format != uint8(f) || h.RawLen != len(content) || len(stored) >= len(value) {
			t.Fatalf("%v: %+v, %v: %d bytes of %d", f, h, err, len(stored), len(value))
		}
		got := []byte(through.Get(ctx, key).Val())
		if !bytes.Equal(contentOf(t, f, got), content) {
			t.Errorf("%v: the client's library does not open what it gets", f)
		}
		checkConsistent(t, through, key, got)
		if fields := through.HGetAll(ctx, key+":h").Val(); fields["field"] != string(got) || fields["short"] != "x" {
			t.Errorf("%v: HGETALL gives %.60q", f, fields)
		}
		if n, err := through.Do(ctx, "HSTRLEN", key+":h", "field").Int(); n != len(got) || err != nil {
			t.Errorf("%v: HSTRLEN %d, %v, want %d", f, n, err, len(got))
		}
	}
}

// checkConsistent checks that commands which compute on a value agree with GET.
func checkConsistent(t *testing.T, c *goredis.Client, key string, got []byte) {
	t.Helper()
	if n := c.StrLen(ctx, key).Val(); n != int64(len(got)) {
		t.Errorf("STRLEN %d, GET gives %d bytes", n, len(got))
	}
	if part := c.GetRange(ctx, key, 3, 40).Val(); part != string(got[3:41]) {
		t.Errorf("GETRANGE gives %q, want %q", part, got[3:41])
	}
	if all := c.MGet(ctx, key, "app:none").Val(); all[0] != string(got) || all[1] != nil {
		t.Errorf("MGET gives %.60q", all)
	}
	if was := c.SetArgs(ctx, key, got, goredis.SetArgs{Get: true}).Val(); was != string(got) {
		t.Errorf("SET with GET gives %.60q", was)
	}
	if bits := c.BitCount(ctx, key, nil).Val(); bits == 0 {
		t.Error("BITCOUNT finds nothing")
	}
	must(t, c.Append(ctx, key, "tail").Err())
	if whole := c.Get(ctx, key).Val(); whole != string(got)+"tail" {
		t.Errorf("APPEND makes %d bytes of %d", len(whole), len(got))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A value in none of the rule's formats is compressed like any other.
func TestForeignRulesOnOtherValues(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, foreignRules(t))
	direct, through := clientOf(t, sock), clientOf(t, path)
	damaged := byGlide(t, menu(1), clientformat.GlideZstd)
	damaged[len(damaged)/2] ^= 0xff
	bomb := byGlide(t, make([]byte, 8<<20), clientformat.GlideLZ4)
	bomb = append(bomb[:len(bomb):len(bomb)], 0) // one byte too many
	claim := binary.LittleEndian.AppendUint32([]byte{0, 1, 2, 0, 2}, 1<<31)
	for name, value := range sorted(map[string][]byte{
		"plain": menu(2), "short": []byte("x"), "empty": {}, "damaged": damaged, "bomb": bomb, "claim": append(claim, menu(1)...),
		"header": {0, 1, 2, 0, 1}, "magic": append([]byte(envelope.Magic), menu(3)...), "zlib": byGlide(t, menu(4), clientformat.Zlib),
	}) {
		key := "app:" + name
		must(t, through.Set(ctx, key, value, 0).Err())
		if got := through.Get(ctx, key).Val(); got != string(value) {
			t.Errorf("%s: %d bytes come back as %d", name, len(value), len(got))
		}
		if h, err := envelope.ParseHeader([]byte(direct.Get(ctx, key).Val())); err == nil && h.IsForeign() {
			t.Errorf("%s is taken for a library's", name)
		}
	}
}

// Under a rule to plain, clients get the content of values that a library stores directly or through the
// gateway. Other values are not changed.
func TestForeignToPlain(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, foreignRules(t))
	direct, through := clientOf(t, sock), clientOf(t, path)
	content := menu(5)
	value := byGlide(t, content, clientformat.GlideZstd)
	must(t, direct.Set(ctx, "bare:past", value, 0).Err())
	must(t, direct.HSet(ctx, "bare:hash", "a", value, "b", "own").Err())
	must(t, direct.Set(ctx, "other", value, 0).Err())
	must(t, through.Set(ctx, "bare:through", value, 0).Err())
	must(t, through.Set(ctx, "app:through", value, 0).Err())
	for _, key := range []string{"bare:past", "bare:through"} {
		if got := through.Get(ctx, key).Val(); got != string(content) {
			t.Errorf("%s: %.60q", key, got)
		}
	}
	if stored := []byte(direct.Get(ctx, "bare:through").Val()); !envelope.IsSealed(stored) || len(stored) >= len(value) {
		t.Errorf("%d bytes are stored for %d", len(stored), len(value))
	}
	got := through.MGet(ctx, "other", "bare:past", "app:through", "bare:none", "bare:through").Val()
	if got[0] != string(value) || got[1] != string(content) || got[3] != nil || got[4] != string(content) {
		t.Errorf("MGET gives %.40q", got)
	}
	if again := contentOf(t, clientformat.GlideZstd, []byte(got[2].(string))); !bytes.Equal(again, content) {
		t.Error("a value beside them is not in its format")
	}
	if fields := through.HGetAll(ctx, "bare:hash").Val(); fields["a"] != string(content) || fields["b"] != "own" {
		t.Errorf("HGETALL gives %.60q", fields)
	}
	pipe := through.TxPipeline()
	first, second := pipe.Get(ctx, "bare:past"), pipe.Get(ctx, "other")
	_, err := pipe.Exec(ctx)
	must(t, err)
	if first.Val() != string(content) || second.Val() != string(value) {
		t.Errorf("EXEC gives %.40q and %.40q", first.Val(), second.Val())
	}
}

// Values compressed before are read as content once the rule says to plain.
func TestForeignEnvelopeToPlain(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, foreignRules(t))
	direct, through := clientOf(t, sock), clientOf(t, path)
	content := menu(6)
	must(t, through.Set(ctx, "app:x", byGlide(t, content, clientformat.GlideZstd), 0).Err())
	must(t, direct.Rename(ctx, "app:x", "bare:x").Err())
	if got := through.Get(ctx, "bare:x").Val(); got != string(content) {
		t.Errorf("%.60q", got)
	}
}

// A command that works on a stored value is refused under a rule to plain, whatever form the value is stored
// in, so that no value mixes two forms.
func TestForeignToPlainRefuses(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, foreignRules(t))
	direct, through := clientOf(t, sock), clientOf(t, path)
	value := byGlide(t, menu(7), clientformat.GlideZstd)
	must(t, direct.Set(ctx, "bare:x", value, 0).Err())
	for _, words := range []string{
		"APPEND bare:x tail", "STRLEN bare:x", "GETRANGE bare:x 0 1", "SETRANGE bare:x 0 a", "SETBIT bare:x 0 1", "BITCOUNT bare:x",
		"EVAL return(1) 1 bare:x", "LCS bare:x app:y", "BITOP NOT app:y bare:x", "HSTRLEN bare:x f", "SET bare:x v IFEQ w",
	} {
		if got := do(through, words); !strings.HasPrefix(got, "error: ERR cinch: a rule with to: plain") {
			t.Errorf("%s: %.80s", words, got)
		}
	}
	if got := direct.Get(ctx, "bare:x").Val(); got != string(value) {
		t.Errorf("%d bytes are left of %d", len(got), len(value))
	}
	expect(t, through, "STRLEN app:none", "0", "APPEND other tail", "4",
		"SET bare:n 5", "OK", "INCR bare:n", "6", "INCRBYFLOAT bare:n 1.5", "7.5", "HINCRBYFLOAT bare:h f 1.5", "1.5")
	must(t, through.Set(ctx, "bare:sealed", value, 0).Err())
	for _, key := range []string{"bare:x", "bare:sealed"} {
		if got := do(through, "INCRBYFLOAT "+key+" 1"); !strings.Contains(got, "not a valid float") || through.Get(ctx, key).Val() != string(menu(7)) {
			t.Errorf("INCRBYFLOAT %s: %s", key, got)
		}
	}
}

// A rule to plain also applies in streamed requests and replies and in transactions, but not to values in streams.
func TestForeignToPlainElsewhere(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, foreignRules(t))
	direct, through := clientOf(t, sock), clientOf(t, path)
	content := menu(8)
	value := byGlide(t, content, clientformat.GlideZstd)
	must(t, direct.MSet(ctx, "bare:x", value, "bare:y", value, "bare:short", byGlide(t, []byte("ab"), clientformat.GlideZstd)).Err())
	must(t, direct.HSet(ctx, "bare:h", "f", value).Err())
	keys, fields := []string{"bare:x", "other"}, []string{"f"}
	for i := range 2500 {
		keys, fields = append(keys, fmt.Sprintf("bare:none:%06d", i)), append(fields, fmt.Sprintf("none:%012d", i))
	}
	if got, err := through.MGet(ctx, keys...).Result(); err != nil || got[0] != string(content) || got[1] != nil {
		t.Errorf("MGET of many: %v", err)
	}
	if got, err := through.HMGet(ctx, "bare:h", fields...).Result(); err != nil || got[0] != string(content) {
		t.Errorf("HMGET of many: %v", err)
	}
	if got := through.Get(ctx, "bare:short").Val(); got != "ab" {
		t.Errorf("a short value: %q", got)
	}
	big := strings.Repeat("x", 100_000)
	if got := through.SetArgs(ctx, "bare:y", big, goredis.SetArgs{Get: true}).Val(); got != string(content) {
		t.Errorf("SET with GET of a long value gives %.40q", got)
	}
	if got := through.Get(ctx, "bare:y").Val(); got != big {
		t.Errorf("a long plain value comes back as %d bytes", len(got))
	}
	must(t, direct.XAdd(ctx, &goredis.XAddArgs{Stream: "bare:s", Values: []any{"f", value}}).Err())
	if got := through.XRange(ctx, "bare:s", "-", "+").Val(); len(got) != 1 || got[0].Values["f"] != string(value) {
		t.Error("XRANGE opens what is no string")
	}
	pipe := through.TxPipeline()
	must(t, pipe.Set(ctx, "bare:z", value, 0).Err())
	first := pipe.Get(ctx, "bare:z")
	for range 20_000 { // merged into one entry
		pipe.Get(ctx, "bare:none")
	}
	_, err := pipe.Exec(ctx)
	if err != nil && err != goredis.Nil || first.Val() != string(content) {
		t.Errorf("EXEC gives %.40q, %v", first.Val(), err)
	}
}

// The first rule for a key decides, as for other values.
func TestForeignToPlainBehindOtherRules(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	zlib, err := clientformat.Named("django")
	must(t, err)
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Key: "web:file:*", Setting: codec.Setting{}},
		{Key: "web:own:*", Setting: codec.Setting{Codec: codec.Zstd}, Formats: zlib},
		{Key: "web:*", Setting: codec.Setting{Codec: codec.Zstd}, Formats: zlib, ToPlain: true},
	}})
	must(t, err)
	path, _ := startGateway(t, sock, func(c *Config) { c.Policy = rules })
	through := clientOf(t, path)
	value := byGlide(t, menu(9), clientformat.Gzip)
	for key, want := range sorted(map[string]string{"web:file:1": string(value), "web:page": string(menu(9))}) {
		must(t, through.Set(ctx, key, value, 0).Err())
		if got := through.Get(ctx, key).Val(); got != want {
			t.Errorf("%s: %d bytes, want %d", key, len(got), len(want))
		}
	}
	must(t, through.Set(ctx, "web:own:1", value, 0).Err())
	if got := contentOf(t, clientformat.Gzip, []byte(through.Get(ctx, "web:own:1").Val())); !bytes.Equal(got, menu(9)) {
		t.Error("web:own:1 is another content")
	}
}

// Rules that cover some values of a key, by size or field, do not change that: values stored directly read
// like those stored through the gateway.
func TestForeignToPlainBesideSizes(t *testing.T) {
	t.Parallel()
	glide, err := clientformat.Named("glide")
	must(t, err)
	zstd := codec.Setting{Codec: codec.Zstd, Level: 19}
	plain := policy.Rule{Name: "web", Key: "web:*", Setting: zstd, Formats: glide, ToPlain: true}
	sized := plain
	sized.MinSize = 4000
	content := menu(1)[:4000]
	value := byGlide(t, content, clientformat.GlideLZ4)
	for name, c := range sorted(map[string]struct {
		rules []policy.Rule
		want  []byte // of values at keys
	}{
		"with sizes":     {[]policy.Rule{sized, {Name: "rest", Setting: zstd}}, content},
		"behind sizes":   {[]policy.Rule{{Name: "big", Key: "web:*", Setting: zstd, MinSize: 8000}, plain, {Name: "rest", Setting: zstd}}, value},
		"behind a field": {[]policy.Rule{{Name: "raw", Key: "web:*", Field: "raw*", Setting: zstd}, plain}, content},
	}) {
		sock := startServer(t)
		rules, err := policy.New(policy.Options{Rules: c.rules})
		must(t, err)
		path, _ := startGateway(t, sock, func(cfg *Config) { cfg.Policy = rules })
		direct, through := clientOf(t, sock), clientOf(t, path)
		for _, by := range []*goredis.Client{direct, through} {
			must(t, by.Set(ctx, "web:1", value, 0).Err())
			must(t, by.HSet(ctx, "web:h", "f", value).Err())
			if got := through.Get(ctx, "web:1").Val(); got != string(c.want) {
				t.Errorf("%s: GET gives %d bytes, want %d", name, len(got), len(c.want))
			}
			want := c.want
			if name == "behind a field" {
				want = value
			}
			if got := through.HGet(ctx, "web:h", "f").Val(); got != string(want) {
				t.Errorf("%s: HGET gives %d bytes, want %d", name, len(got), len(want))
			}
		}
	}
}

// Reads may have as many arguments as the server accepts, with keys under a rule to plain and others.
func TestForeignToPlainOfManyKeys(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, foreignRules(t))
	direct, through := clientOf(t, sock), clientOf(t, path)
	value := byGlide(t, menu(1), clientformat.GlideZstd)
	long := strings.Repeat("k", 100_000)
	must(t, direct.MSet(ctx, "other:069999", "last", "bare:x", value, "bare:"+long, value, "other:"+long, value).Err())
	must(t, direct.HSet(ctx, "bare:h", "other:069999", value).Err())
	keys := make([]string, 70_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("other:%06d", i)
	}
	if got, err := through.MGet(ctx, keys...).Result(); err != nil || got[69_999] != "last" {
		t.Errorf("MGET of others: %v", err)
	}
	if got, err := through.HMGet(ctx, "bare:h", keys...).Result(); err != nil || got[69_999] != string(menu(1)) {
		t.Errorf("HMGET: %v", err)
	}
	keys[0], keys[100], keys[69_998] = "bare:x", "bare:"+long, "other:"+long
	for range 2 {
		got, err := through.MGet(ctx, keys...).Result()
		must(t, err)
		if got[0] != string(menu(1)) || got[1] != nil || got[100] != string(menu(1)) || got[69_998] != string(value) || got[69_999] != "last" {
			t.Error("MGET gives other values")
		}
	}
	pipe := through.TxPipeline()
	all, one := pipe.MGet(ctx, keys...), pipe.Get(ctx, "bare:x")
	_, err := pipe.Exec(ctx)
	must(t, err)
	if all.Val()[0] != string(menu(1)) || all.Val()[69_999] != "last" || one.Val() != string(menu(1)) {
		t.Error("MGET in a transaction gives other values")
	}
}

// toPlainGateway returns a gateway with a rule to plain for library values under pl:, and a reply budget of
// 32 MiB.
func toPlainGateway(t *testing.T, sock, library string) (path string, replies *memory.Budget) {
	t.Helper()
	formats, err := clientformat.Named(library)
	must(t, err)
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Key: "pl:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Formats: formats, ToPlain: true},
	}})
	must(t, err)
	replies = memory.NewBudget(32 << 20)
	path, _ = startGateway(t, sock, func(c *Config) { c.Policy, c.Replies, c.MaxSeal, c.MaxOpen = rules, replies, 32<<20, 32<<20 })
	return path, replies
}

// Many clients at once read long values under a rule to plain. Each needs as much as the reply budget has.
func TestForeignRepliesShareTheBudget(t *testing.T) { // not parallel: its clients wait for a budget with a time limit
	const hung = 10 * time.Minute // with the race detector, on a busy machine, they take more than one minute
	clients, each := 24, codectest.Amount(1, 1, 2)
	for name, value := range map[string][]byte{
		"of a library": append([]byte{0, 'a'}, bytes.Repeat([]byte{0xe0, 84, 0}, 330_000)...), // LZF
		"plain":        bytes.Repeat([]byte("plain text, never compressed by anyone. "), 25_000),
	} {
		t.Run(name, func(t *testing.T) {
			sock := startServer(t)
			path, replies := toPlainGateway(t, sock, "phpredis")
			must(t, clientOf(t, sock).Set(ctx, "pl:0", value, 0).Err())
			var answered atomic.Int32
			for range clients {
				c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: path, ReadTimeout: hung, MaxRetries: -1})
				t.Cleanup(func() { _ = c.Close() })
				go func() {
					for range each {
						if _, err := c.Get(ctx, "pl:0").Result(); err == nil {
							answered.Add(1)
						}
					}
				}()
			}
			for end := time.Now().Add(hung); time.Now().Before(end) && answered.Load() < int32(clients*each); {
				time.Sleep(10 * time.Millisecond)
			}
			if answered.Load() < int32(clients*each) {
				t.Errorf("%d of %d GETs are answered: %+v", answered.Load(), clients*each, replies.Use())
			}
			testenv.Eventually(t, "the budget is whole again", func() bool { return replies.InUse() == 0 })
			if name == "plain" && replies.Use().Peak > 1<<20 && !testenv.SharesConnections() {
				t.Errorf("values of no library take budget: %+v", replies.Use())
			}
		})
	}
}

// A client that reads nothing while another one waits is disconnected. A client that leaves while it waits gives back
// the memory that it gets afterwards.
func TestForeignReplyToStalledClient(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, replies := toPlainGateway(t, sock, "phpredis")
	must(t, clientOf(t, sock).Set(ctx, "pl:0", append([]byte{0, 'a'}, bytes.Repeat([]byte{0xe0, 84, 0}, 330_000)...), 0).Err())
	ask := func() net.Conn {
		c, err := net.Dial("unix", path)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte("*2\r\n$3\r\nGET\r\n$4\r\npl:0\r\n"))
		must(t, err)
		return c
	}
	ask() // reads nothing
	testenv.Eventually(t, "the place is taken", func() bool { return replies.InUse() > 32<<20 })
	next := ask()
	testenv.Eventually(t, "the next one waits", func() bool { return replies.Waiting() == 1 })
	must(t, next.Close())
	testenv.Eventually(t, "no client waits or holds memory", func() bool { return replies.Waiting() == 0 && replies.InUse() == 0 })
}
