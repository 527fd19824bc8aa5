package redis

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// dialogue feeds requests and production's answers to a reader with a real server's commands.
type dialogue struct {
	t *testing.T
	r *reader
}

func newDialogue(t *testing.T) *dialogue {
	t.Helper()
	p, err := New(t.Context(), upstream(t, testenv.Redis(t)))
	if err != nil {
		t.Fatal(err)
	}
	return &dialogue{t, p.Reader().(*reader)}
}

// says sends a request such as "SET k v", and returns the operations that production's reply completes.
func (d *dialogue) says(request, reply string) []*shadow.Operation {
	d.t.Helper()
	now := time.Now()
	if err := d.r.Request(resp.AppendCommand(nil, strings.Fields(request)...), now); err != nil {
		d.t.Fatalf("%s: %v", request, err)
	}
	done, err := d.r.Reply([]byte(reply), now)
	if err != nil {
		d.t.Fatalf("%s: %v", request, err)
	}
	return done
}

// one is like says, for a request that is one operation.
func (d *dialogue) one(request, reply string) *shadow.Operation {
	d.t.Helper()
	done := d.says(request, reply)
	if len(done) != 1 {
		d.t.Fatalf("%s is %d operations", request, len(done))
	}
	return done[0]
}

// Commands that touch more than the keys they name are ordered with everything.
func TestWholeOperations(t *testing.T) {
	d := newDialogue(t)
	for request, whole := range map[string]bool{
		"KEYS *": true, "EVAL_RO return 0": true, "EVAL return 0": true, "FLUSHALL": true, "SWAPDB 0 1": true, "NOSUCH k": true,
		"SORT k STORE l": true, "MOVE k 1": true, "COPY a b DB 1": true, "FT.SEARCH index text": true,
		"COPY a b": false, "GET k": false, "PING": false, "SELECT 0": false, "DBSIZE": false, "SCAN 0": false, "EVAL x 1 k": false, "GEORADIUS k 1 1 1 m STORE l": false,
	} {
		if op := d.one(request, "+OK\r\n"); op.TouchesAll != whole {
			t.Errorf("%s: whole is %v", request, op.TouchesAll)
		}
	}
}

// A transaction is ordered before later changes of its watched keys, which would abort it at a target.
func TestTransactionTouchesWhatItWatches(t *testing.T) {
	d := newDialogue(t)
	d.one("WATCH a b", "+OK\r\n")
	d.says("MULTI", "+OK\r\n")
	d.says("SET c v", "+QUEUED\r\n")
	op := d.one("EXEC", "*1\r\n+OK\r\n")
	if !slices.Equal(op.Keys, []string{"0 a", "0 b", "0 c"}) {
		t.Errorf("it touches %q", op.Keys)
	}
	d.says("MULTI", "+OK\r\n")
	d.says("SET c v", "+QUEUED\r\n")
	if op := d.one("EXEC", "*1\r\n+OK\r\n"); !slices.Equal(op.Keys, []string{"0 c"}) {
		t.Errorf("the next one, which watches nothing, touches %q", op.Keys)
	}
	d.one("WATCH a", "+OK\r\n")
	d.one("UNWATCH", "+OK\r\n")
	d.says("MULTI", "+OK\r\n")
	if op := d.one("EXEC", "*0\r\n"); len(op.Keys) > 0 {
		t.Errorf("one behind UNWATCH touches %q", op.Keys)
	}
}

// SELECT within a transaction applies to later commands, both inside and after it.
func TestSelectInTransaction(t *testing.T) {
	d := newDialogue(t)
	d.says("MULTI", "+OK\r\n")
	d.says("SET a v", "+QUEUED\r\n")
	d.says("SELECT 3", "+QUEUED\r\n")
	d.says("SET b v", "+QUEUED\r\n")
	done := d.says("EXEC", "*3\r\n+OK\r\n+OK\r\n+OK\r\n")
	if len(done) != 2 || !slices.Equal(done[0].Keys, []string{"0 a", "3 b"}) || !strings.Contains(string(done[0].Request), "SELECT") {
		t.Fatalf("%d operations, %+v", len(done), done[0])
	}
	if done[1].Kind != shadow.State || done[1].Name != "SELECT" || !strings.Contains(string(done[1].Request), "3") {
		t.Errorf("a new connection begins with %q", done[1].Request)
	}
	if op := d.one("GET c", "$-1\r\n"); !slices.Equal(op.Keys, []string{"3 c"}) {
		t.Errorf("behind it: %q", op.Keys)
	}
	d.says("MULTI", "+OK\r\n")
	d.says("SELECT 99", "+QUEUED\r\n")
	d.says("EXEC", "*1\r\n-ERR DB index is out of range\r\n")
	if op := d.one("GET c", "$-1\r\n"); !slices.Equal(op.Keys, []string{"3 c"}) {
		t.Errorf("behind one that was refused: %q", op.Keys)
	}
}

// Keys may contain any bytes, and never look like a part of another key.
func TestKeysOfAnyBytes(t *testing.T) {
	d := newDialogue(t)
	for _, key := range []string{"a\x00b", "\x00", "\x01", "a\x01\x02\x00\x01", "plain"} {
		op := d.one("SET "+key+" v", "+OK\r\n")
		if strings.Contains(op.Keys[0], shadow.Part) {
			t.Errorf("%q is %q", key, op.Keys[0])
		}
		if db, name := keyOf(op.Keys[0]); db != "0" || name != key {
			t.Errorf("%q comes back as %q in %s", key, name, db)
		}
	}
}

// Names of operations are short and consist of letters, whatever a client sends.
func TestNamesAreShort(t *testing.T) {
	d := newDialogue(t)
	for request, want := range map[string]string{
		"GET user:1234": "GET user:*", "NO\x1b[2JSUCH k": "UNKNOWN COMMAND", strings.Repeat("x", 1000): "UNKNOWN COMMAND",
	} {
		if op := d.one(request, "-ERR\r\n"); op.Name != want {
			t.Errorf("%.20q is named %.40q", request, op.Name)
		}
	}
	if op := d.one("GET "+strings.Repeat("a:", 10_000), "$-1\r\n"); len(op.Name) > 100 {
		t.Errorf("a name has %d bytes", len(op.Name))
	}
	d.says("MULTI", "+OK\r\n")
	const many = 20_000
	for range many {
		d.says("PING", "+QUEUED\r\n")
	}
	if op := d.one("EXEC", "*20000\r\n"+strings.Repeat("+PONG\r\n", many)); len(op.Name) > 100 || op.Replies != many+2 {
		t.Errorf("a name has %d bytes, %d replies", len(op.Name), op.Replies)
	}
}

// A client that sends many small requests and reads nothing holds no more than is counted.
func TestSmallRequestsCountWhatTheyHold(t *testing.T) {
	d := newDialogue(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	pings := bytes.Repeat(resp.AppendCommand(nil, "PING"), 1000)
	for range 100 {
		if err := d.r.Request(pings, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if real := int64(after.HeapAlloc) - int64(before.HeapAlloc); real > 2*d.r.Held() {
		t.Errorf("%d bytes are held, %d counted", real, d.r.Held())
	}
	runtime.KeepAlive(d)
}

// A connection that had one large answer releases its buffer.
func TestLargeAnswersAreForgotten(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	c := &conn{Conn: a}
	go func() {
		for _, n := range []int{30 << 20, 10} {
			_, _ = b.Write(resp.AppendBulk(nil, make([]byte, n)))
		}
	}()
	for range 2 {
		if _, err := c.frame(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(c.in) > 2*shadow.ReadBytes {
		t.Errorf("%d bytes are kept", cap(c.in))
	}
}

// CLIENT REPLY ends the mirroring of its connection, since replies can't be matched afterwards. Servers from
// 7.0 on list it as a subcommand.
func TestClientReplyEndsTheMirroring(t *testing.T) {
	p, err := New(t.Context(), upstream(t, testenv.Redis(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reader().Request(resp.AppendCommand(nil, "CLIENT", "REPLY", "OFF"), time.Now()); !errors.Is(err, shadow.ErrUnmirrored) {
		t.Errorf("%v", err)
	}
}
