package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/mask"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// fuzzed returns a Protocol with the commands of a real server.
func fuzzed(f *testing.F) *Protocol {
	up, err := endpoint.ParseUpstream(testenv.Redis(f).URL(), "6379")
	if err != nil {
		f.Fatal(err)
	}
	p, err := New(f.Context(), up)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// dialogues are the seed corpus: requests and replies.
var dialogues = [][2]string{
	{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "+OK\r\n$1\r\nv\r\n"},
	{"MULTI\r\nINCR n\r\nSELECT 1\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n+OK\r\n"},
	{"SET k v PX 100 NX GET\r\nEVAL x 1 k\r\nPEXPIRE k 5 XX\r\nRENAME k l\r\n", "$-1\r\n*2\r\n:1\r\n:100\r\n:1\r\n+OK\r\n"},
	{"XADD s * f v\r\nSPOP t 2\r\nBLPOP l 0\r\nHELLO 3\r\n", "$3\r\n1-1\r\n~2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$1\r\nl\r\n$1\r\nv\r\n%1\r\n$5\r\nproto\r\n:3\r\n"},
	{"HPEXPIRE h 10 FIELDS 2 a b\r\nHSETEX h EX 1 FIELDS 1 a b\r\nMSETEX 1 k v EX 5\r\n", "*2\r\n:1\r\n:-2\r\n:1\r\n:1\r\n"},
	{"SORT l BY nosort LIMIT 0 1\r\nAUTH x\r\nWATCH a\r\nMULTI\r\nDISCARD\r\n", "*0\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n"},
}

// FuzzReader passes bytes to a reader in pieces of different sizes: the results are the same, and it holds no
// more than it counts.
func FuzzReader(f *testing.F) {
	p := fuzzed(f)
	for i, d := range dialogues {
		f.Add([]byte(d[0]), []byte(d[1]), uint8(i+1))
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, requests, replies []byte, each uint8) {
		read := func(each int) (all []string, failed error) {
			own := &Protocol{commands: p.commands, managesExpiry: true}
			r := own.Reader()
			for piece := range slices.Chunk(requests, each) {
				if err := r.Request(piece, now); err != nil {
					return all, err
				}
			}
			for piece := range slices.Chunk(replies, each) {
				done, err := r.Reply(piece, now)
				for _, op := range done {
					all = append(all, describeOp(op))
				}
				if err != nil {
					return all, err
				}
			}
			if r.Held() < 0 {
				t.Errorf("%d bytes are held", r.Held())
			}
			return all, nil
		}
		whole, err := read(1 << 20)
		pieces, inPieces := read(int(each%64) + 1)
		if err == nil && (inPieces != nil || !slices.Equal(whole, pieces)) {
			t.Errorf("whole: %q\nin pieces of %d: %q, %v", whole, each%64+1, pieces, inPieces)
		}
	})
}

func describeOp(op *shadow.Operation) string {
	return fmt.Sprintf("%s %v %q %q %d %d %v %+v", op.Name, op.Kind, op.Keys, op.Request, op.Replies, op.Form, op.Check, op.Production.Error)
}

// FuzzFilter passes commands to a filter that redacts: no value of a matching key is recorded, and the
// recorded bytes are as many whole requests as replies.
func FuzzFilter(f *testing.F) {
	p := fuzzed(f)
	const key, secret = "user:1", "s3cret-of-somebody"
	for _, text := range []string{
		"SET K V", "SET K V EX 10 GET", "MSET K V a b", "GETSET K V", "HSET K V V f V", "LPUSH K V", "SADD K V a", "ZADD K 1 V", "APPEND K V", "EVAL V 1 K", "AUTH V", "HELLO 3 AUTH u V",
		"SET K a IFEQ V", "NOSUCH K V", "XADD K * f V", "RESTORE K 0 V", "LREM K 0 V", "SINTERSTORE d K", "BITOP AND d K a", "SORT K BY V", "CONFIG SET requirepass V", "COPY K d", "MIGRATE V 1 K 0 1",
	} {
		f.Add(text, byte(3))
	}
	f.Fuzz(func(t *testing.T, text string, kind byte) {
		args := strings.Split(text, " ")
		for i, a := range args {
			switch a {
			case "K":
				args[i] = key
			case "V":
				args[i] = secret
			}
		}
		if args[0] == secret || args[0] == "" {
			return
		}
		q := request{bytes: resp.AppendCommand(nil, args...), args: bytesOf(args)}
		all := &Filters{p: p, key: mask.New(), redact: []policy.Pattern{policy.Compile("user:*")}}
		if p.describe(&q) != nil {
			return
		}
		keys, known := q.keysOf(q.args)
		isKey := slices.ContainsFunc(keys, func(k []byte) bool { return string(k) == secret })
		ofAnother := strings.EqualFold(args[0], "mget") && !strings.EqualFold(strings.Join(args[1:], " "), key) // the value, in the request or the reply, is another key's
		for i := 2; strings.HasPrefix(strings.ToLower(args[0]), "mset") && i < len(args); i += 2 {
			ofAnother = ofAnother || args[i] == secret && args[i-1] != key
		}
		matches := !known || slices.ContainsFunc(keys, func(k []byte) bool { return string(k) == key })
		one := all.Filter()
		recorded, err := one.Request(q.bytes)
		if err != nil {
			return
		}
		recorded = bytes.Clone(recorded)
		reply := [][]byte{
			[]byte("+OK\r\n"), resp.AppendBulk(nil, []byte(secret)), []byte("*2\r\n" + string(resp.AppendBulk(resp.AppendBulk(nil, []byte(secret)), []byte("b")))),
			[]byte("-ERR " + secret + "\r\n"), []byte("%1\r\n" + string(resp.AppendBulk(resp.AppendBulk(nil, []byte("f")), []byte(secret)))),
		}[kind%5]
		replied, err := one.Reply(reply)
		if err != nil || (len(recorded) == 0) != (len(replied) == 0) {
			t.Fatalf("%q is recorded as %q, its reply %q as %q: %v", q.bytes, recorded, reply, replied, err)
		}
		if matches && !isKey && !ofAnother && (bytes.Contains(recorded, []byte("s3cret")) || bytes.Contains(replied, []byte("s3cret"))) {
			t.Errorf("%q is recorded as %q, its reply as %q", q.bytes, recorded, replied)
		}
	})
}

func bytesOf(args []string) (all [][]byte) {
	for _, a := range args {
		all = append(all, []byte(a))
	}
	return all
}
