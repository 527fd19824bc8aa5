package pack

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestMain runs more tests in parallel than there are processors: most of them wait for a packer that is
// slowed down.
func TestMain(m *testing.M) {
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == set.DefValue {
		_ = set.Value.Set("6")
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { c.Close() })
	return c
}

// ended is the result of a command.
type ended struct {
	code int
	out  string
	rss  int64 // peak resident memory in bytes
}

// plainRule is an argument of cinch pack for which no dictionary is trained first, which would take
// seconds.
const plainRule = "--rule=setting=zstd-3"

// cinchCommand runs the program to its end. Packing does not slow down with the server's latency, so that a
// busy machine does not delay tests.
func cinchCommand(t testing.TB, args ...string) ended {
	t.Helper()
	switch args[0] {
	case "pack", "unpack", "verify":
		args = append(args, "--no-backoff")
	}
	cmd := exec.Command(testenv.Cinch(t), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	e := ended{code: cmd.ProcessState.ExitCode(), out: out.String()}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		e.rss = usage.Maxrss << 10
	}
	return e
}

// expect runs the program, which must exit with the code and print the texts. A run of spaces counts as one
// space, since column widths of tables may change.
func expect(t testing.TB, code int, args []string, texts ...string) ended {
	t.Helper()
	e := cinchCommand(t, args...)
	if e.code != code {
		t.Fatalf("cinch %s ended with %d, want %d:\n%s", strings.Join(args, " "), e.code, code, e.out)
	}
	for _, text := range texts {
		if !e.prints(text) {
			t.Errorf("cinch %s does not print %q:\n%s", strings.Join(args, " "), text, e.out)
		}
	}
	return e
}

// prints reports whether the program printed the text.
func (e ended) prints(text string) bool {
	return strings.Contains(spaces.ReplaceAllString(e.out, " "), spaces.ReplaceAllString(text, " "))
}

var spaces = regexp.MustCompile(" +")

// document returns a value that compresses well and differs for each n.
func document(n, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id":%d,"line":%d,"name":"customer %d","state":"open","currency":"EUR"},`, n, i, n*31+i)
	}
	return b.String()[:size]
}

// fill writes strings and hashes, a third of them with an expiry.
func fill(t testing.TB, c *goredis.Client, strings, hashes, size int) {
	t.Helper()
	for from := 0; from < strings+hashes; from += 1000 {
		_, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			for i := from; i < min(from+1000, strings+hashes); i++ {
				key := fmt.Sprint("string:", i)
				if i < strings {
					p.Set(t.Context(), key, document(i, size), 0)
				} else {
					key = fmt.Sprint("hash:", i)
					p.HSet(t.Context(), key, "a", document(i, size), "b", document(i+1, size/2), "n", i)
				}
				if i%3 == 0 {
					p.Do(t.Context(), "pexpireat", key, 4102444800000+int64(i))
				}
			}
			return nil
		})
		must(t, err)
	}
}

// contents returns everything in a database, with decompressed values, as a client sees it.
func contents(t testing.TB, c *goredis.Client, s *envelope.Sealer) map[string]string {
	t.Helper()
	all := map[string]string{}
	open := func(stored string) string {
		plain, err := s.Open(nil, []byte(stored))
		if err != nil {
			t.Fatalf("%.40q: %v", stored, err)
		}
		return string(plain)
	}
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(t.Context(), cursor, "*", 1000).Result()
		must(t, err)
		texts, hashes, expiries := map[string]*goredis.StringCmd{}, map[string]*goredis.MapStringStringCmd{}, map[string]*goredis.DurationCmd{}
		// One of GET and HGETALL fails for each key.
		_, _ = c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			for _, key := range keys {
				texts[key], hashes[key], expiries[key] = p.Get(t.Context(), key), p.HGetAll(t.Context(), key), p.PExpireTime(t.Context(), key)
			}
			return nil
		})
		for _, key := range keys {
			if v, err := texts[key].Result(); err == nil {
				all[key] = open(v)
			}
			for f, v := range hashes[key].Val() {
				all[key+"."+f] = open(v)
			}
			must(t, expiries[key].Err())
			all[key+" expires"] = fmt.Sprint(expiries[key].Val())
		}
		if cursor = next; cursor == 0 {
			return all
		}
	}
}

// sealed returns how many of the keys of all hold a compressed string.
func sealed(all map[string]string, c *goredis.Client) (n int) {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(k string) bool { return strings.HasSuffix(k, " expires") })
	for keys := range slices.Chunk(keys, 500) { // in batches, since the packer continues meanwhile
		replies, _ := c.Pipelined(context.Background(), func(p goredis.Pipeliner) error {
			for _, key := range keys {
				p.Get(context.Background(), key)
			}
			return nil
		})
		for _, r := range replies {
			if v, err := r.(*goredis.StringCmd).Result(); err == nil && envelope.IsSealed([]byte(v)) {
				n++
			}
		}
	}
	return n
}

func sameContents(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	wrong := 0
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			if wrong++; wrong <= 5 {
				t.Errorf("%s: %s is %.60q (there: %v), want %.60q", what, k, g, ok, v)
			}
		}
	}
	if len(got) != len(want) || wrong > 0 {
		t.Fatalf("%s: %d wrong, %d values, want %d", what, wrong, len(got), len(want))
	}
}

func newSealer(dicts envelope.Dictionaries) *envelope.Sealer {
	return envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{}), Dicts: dicts})
}

// storeSealer returns a Sealer that finds dictionaries where packers store them.
func storeSealer(c *goredis.Client) *envelope.Sealer {
	return newSealer(storeredis.NewDicts(storeredis.DictsOptions{Client: c}))
}

func zstdPolicy(t testing.TB) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Setting: codec.Setting{Codec: codec.Zstd, Level: 1}}}})
	must(t, err)
	return p
}

// inProcess returns the options of a pack run within the test.
func inProcess(t testing.TB, url string) pack.Options {
	t.Helper()
	s, err := storeredis.Open(t.Context(), storeredis.OpenOptions{Client: goredis.Options{Addr: url}})
	must(t, err)
	t.Cleanup(s.Close)
	o := pack.Options{
		NoBackoff: true, Step: 16, Unavailable: storeredis.Unavailable,
		Read: store.ReadOptions{Types: store.String | store.Hash},
	}
	for _, n := range s.Nodes() {
		for _, sp := range n.Spaces() {
			o.Targets = append(o.Targets, store.Target{Node: n, Space: sp})
		}
	}
	return o
}

var functionsOfAll = goredis.FunctionListQuery{}

func streamEntry(value string) *goredis.XAddArgs {
	return &goredis.XAddArgs{Stream: "stream", Values: []string{"f", value}}
}

func testDict(t testing.TB) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict([]byte(document(99, 4000)))
	must(t, err)
	return d
}

// known finds dictionaries in a set.
type known struct{ set *dict.Set }

func (k known) Dictionary(number uint32) (*codec.Dict, error) {
	if d, ok := k.set.Get(number); ok {
		return d, nil
	}
	return nil, envelope.ErrDictMissing
}
