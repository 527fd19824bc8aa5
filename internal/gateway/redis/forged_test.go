package redis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// tenants is a server with two users. The values of owner under b: are compressed with a dictionary that
// contains a card number. thief has ~a:* and no right to functions; under c: the rules compress the thief's
// values with that dictionary, too.
type tenants struct {
	t            *testing.T
	direct       *goredis.Client // to the server itself
	owner, thief *goredis.Client // through the gateway
	zstd         *codectest.CountingZstd
	dict         *codec.Dict
	errors       func() map[string]uint64
}

// oneDict implements Dicts for a server that stores one dictionary.
type oneDict struct{ *codec.Dict }

func (d oneDict) Dictionary(number uint32) (*codec.Dict, error) {
	if number != d.Number() {
		return nil, envelope.ErrDictMissing
	}
	return d.Dict, nil
}

func (d oneDict) ReadyOn(number uint32, _ time.Time) bool { return number == d.Number() }

func (oneDict) Dialed() {}
func (oneDict) Lost()   {}
func (oneDict) Kick()   {}

const secretNumber = "4929 1234 5678 9012"

func newTenants(t *testing.T) *tenants {
	sock := startServer(t)
	direct := clientOf(t, sock)
	expect(t, direct, "ACL SETUSER owner on >pw ~b:* +@all", "OK", "ACL SETUSER thief on >pw ~a:* ~c:* +@all -@admin -function -fcall -fcall_ro", "OK")
	content := bytes.Repeat([]byte("what the owner's values have in common, and "), 20)
	content = append(content, `{"name":"Owner","card":"`+secretNumber+`","valid":"11/29"}`...)
	d, err := codec.NewDict(content)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "b", Key: "b:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3, Dict: d.Number()}},
		{Name: "shared", Key: "c:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3, Dict: d.Number()}},
		{Name: "a", Key: "a:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	x := &tenants{t: t, direct: direct, dict: d, zstd: &codectest.CountingZstd{ZstdCoder: codec.NewGoZstd()}}
	path, g := startGateway(t, sock, func(c *Config) {
		c.Dicts, c.Policy, c.Engine = oneDict{d}, rules, codec.New(codec.Options{Zstd: x.zstd})
	})
	x.errors = func() map[string]uint64 { return g.cfg.Stats.Snapshot().Errors }
	x.owner, x.thief = clientOf(t, path, as("owner", "pw")), clientOf(t, path, as("thief", "pw"))
	expect(t, x.owner, "PING", "PONG")
	expect(t, x.thief, "PING", "PONG")
	return x
}

// copying returns a zstd frame that copies n bytes, from offset at on, of any dictionary of the given length. It is
// made with another dictionary of that length, which the thief made up.
func copying(t *testing.T, length, at, n int) []byte {
	t.Helper()
	own := bytes.Repeat([]byte{'.'}, length)
	piece := []byte("0123456789abcdefghijklmnopqrstuvwxyz")[:n]
	copy(own[at:], piece)
	d, err := codec.NewDict(own)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := codec.NewGoZstd().Compress(nil, piece, 19, d)
	if err != nil || bytes.Contains(frame, piece[:4]) {
		t.Fatalf("% x copies nothing: %v", frame, err)
	}
	return frame
}

// forged returns the envelopes by which a thief might try to verify a guess: with a checksum of the guess in
// four bytes, and with eight bytes in place of the tag.
func (x *tenants) forged(guess string) [][]byte {
	at := bytes.Index(x.dict.Content(), []byte(secretNumber))
	frame := copying(x.t, len(x.dict.Content()), at, len(guess))
	head := append([]byte(envelope.Magic), 0x15, 0x80, byte(len(guess)))
	sum := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(guess)))
	number := binary.BigEndian.AppendUint32(nil, x.dict.Number())
	unknown := binary.BigEndian.AppendUint32(nil, x.dict.Number()+1)
	var all [][]byte
	for _, rest := range [][]byte{
		append(bytes.Clone(sum), number...),
		append(append(bytes.Clone(sum), 0, 0, 0, 0), number...),
		append(append(make([]byte, 4), sum...), number...),
		append(make([]byte, 8), unknown...),
	} {
		all = append(all, append(append(bytes.Clone(head), rest...), frame...))
	}
	return all
}

// plant stores bytes under a key of the thief, in one of the ways available to the thief.
func (x *tenants) plant(way, key string, stored []byte) {
	x.t.Helper()
	err := x.thief.Del(ctx, key).Err()
	switch way {
	case "RESTORE":
		must := func(e error) {
			if e != nil {
				x.t.Fatal(e)
			}
		}
		must(x.direct.Set(ctx, "made:elsewhere", stored, 0).Err())
		dump, e := x.direct.Dump(ctx, "made:elsewhere").Result()
		must(e)
		err = x.thief.Restore(ctx, key, 0, dump).Err()
	case "EVAL":
		err = x.thief.Eval(ctx, "return redis.call('SET',KEYS[1],ARGV[1]..ARGV[2])", []string{key}, stored[:1], stored[1:]).Err()
	case "hash":
		err = x.thief.Eval(ctx, "return redis.call('HSET',KEYS[1],'f',ARGV[1]..ARGV[2])", []string{key}, stored[:1], stored[1:]).Err()
	}
	if err != nil {
		x.t.Fatal(way, err)
	}
}

// lookingAt are commands whose answers may disclose something about the value of a:x.
var lookingAt = []string{
	"GET a:x", "GETEX a:x", "GETRANGE a:x 5 5", "SUBSTR a:x 5 5", "BITCOUNT a:x", "BITPOS a:x 1", "GETBIT a:x 7", "BITFIELD_RO a:x GET u8 0",
	"LCS a:x a:known", "LCS a:x a:known LEN", "APPEND a:x !", "SETRANGE a:x 0 4", "SETBIT a:x 1 1", "BITFIELD a:x SET u8 0 1", "BITOP NOT a:out a:x",
	"INCRBYFLOAT a:x 1", "EVAL return(redis.call('GET',KEYS[1])) 1 a:x", "EVAL return(redis.call('STRLEN',KEYS[1])) 1 a:x",
	"EVAL_RO return(redis.call('GET',KEYS[1])) 1 a:x", "SORT a:list BY a:* ALPHA", "PFCOUNT a:x", "GETSET a:x 1", "GETDEL a:x",
}

const oneText = "error: ERR cinch: compressed value can't be decompressed: it is damaged or its dictionary is missing, see the gateway's log"

// A user with a right to some keys learns nothing about a dictionary of others by planting envelopes that
// name it: nothing is decoded, and every guess gets the same answer.
func TestPlantedEnvelopesTellNothing(t *testing.T) {
	t.Parallel()
	x := newTenants(t)
	value := fmt.Sprintf(`{"name":"Owner","card":"%s","valid":"11/29"} and what the owner's values have in common`, secretNumber)
	expect(t, x.thief, "SET a:known "+strings.ReplaceAll(secretNumber, " ", "_"), "OK", "RPUSH a:list x known", "2")
	if err := x.owner.Set(ctx, "b:1", value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if stored, _ := x.direct.Get(ctx, "b:1").Bytes(); !envelope.IsSealed(stored) || len(stored) > 60 {
		t.Fatalf("%d bytes of b:1 are not sealed with the dictionary", len(stored))
	}
	for _, guess := range []string{secretNumber, secretNumber[:18] + "5"} { // the right one, and another
		for i, stored := range x.forged(guess) {
			for _, way := range []string{"RESTORE", "EVAL"} {
				for _, command := range lookingAt {
					x.plant(way, "a:x", stored)
					if got := do(x.thief, command); got != oneText && !harmless(command, got) {
						t.Errorf("%s, form %d by %s, %s: %.150q", guess, i, way, command, got)
					}
				}
			}
			x.plant("hash", "a:h", stored)
			for _, command := range []string{"HGET a:h f", "HINCRBYFLOAT a:h f 1"} {
				if got := do(x.thief, command); got != oneText {
					t.Errorf("%s, form %d, %s: %.150q", guess, i, command, got)
				}
			}
		}
	}
	if n := x.zstd.Decoded.Load(); n != 0 {
		t.Errorf("the decoder was called %d times", n)
	}
	if got := x.errors(); got["wrong_tag"] == 0 || got["dictionary_missing"] == 0 {
		t.Errorf("classes: %v", got)
	}
	if got := do(x.owner, "GET b:1"); got != value {
		t.Errorf("the owner's: %q", got)
	}
}

// harmless reports whether the server gave this answer without the gateway reading the envelope.
func harmless(command, got string) bool {
	return command == "PFCOUNT a:x" && strings.HasPrefix(got, "error: WRONGTYPE")
}

// A tag seen under one envelope authenticates no other: neither bytes that are SET, which are an ordinary
// value, nor bytes that are RESTOREd with the tag in them.
func TestLiftedTagsOpenNothingElse(t *testing.T) {
	t.Parallel()
	x := newTenants(t)
	own := "what the owner's values have in common, and a word of the thief's"
	if err := x.thief.Set(ctx, "c:own", own, 0).Err(); err != nil {
		t.Fatal(err)
	}
	lifted, err := x.direct.Get(ctx, "c:own").Bytes() // DUMP discloses as much
	if err != nil {
		t.Fatal(err)
	}
	h, err := envelope.ParseHeader(lifted)
	if err != nil || h.Dict != x.dict.Number() {
		t.Fatalf("%+v, %v", h, err)
	}
	if err := x.thief.Set(ctx, "a:x", lifted, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := do(x.thief, "GET a:x"); got != string(lifted) {
		t.Errorf("an envelope that was SET is not a value like any other: %q", got)
	}
	x.plant("RESTORE", "a:x", lifted)
	if got := do(x.thief, "GET a:x"); got != own {
		t.Errorf("the thief's own value, moved: %q", got)
	}
	before := x.zstd.Decoded.Load()
	at := bytes.Index(x.dict.Content(), []byte(secretNumber))
	payload := copying(t, len(x.dict.Content()), at, len(secretNumber))
	longer := h
	longer.RawLen++
	extended := h
	extended.Ext = []byte("word")
	swapped := h
	swapped.RawLen = len(secretNumber)
	for name, stored := range sorted(map[string][]byte{
		"another payload":        append(bytes.Clone(lifted[:h.Len]), payload...),
		"another payload, fully": append(swapped.Append(nil), payload...),
		"longer":                 append(longer.Append(nil), lifted[h.Len:]...),
		"extended":               append(extended.Append(nil), lifted[h.Len:]...),
		"cut":                    lifted[:len(lifted)-1],
		"more behind it":         append(bytes.Clone(lifted), 0),
		"a bit":                  append(bytes.Clone(lifted[:len(lifted)-1]), lifted[len(lifted)-1]^1),
	}) {
		for _, way := range []string{"RESTORE", "EVAL"} {
			x.plant(way, "a:x", stored)
			for _, command := range []string{"GET a:x", "GETRANGE a:x 0 3", "APPEND a:x !"} {
				if got := do(x.thief, command); got != oneText {
					t.Errorf("%s by %s, %s: %.150q", name, way, command, got)
				}
			}
		}
	}
	if n := x.zstd.Decoded.Load() - before; n != 0 {
		t.Errorf("the decoder was called %d times", n)
	}
}

// onOthers are commands that use, or would use, a key of the owner, to which the thief has no right.
var onOthers = []string{
	"GET b:1", "GETEX b:1", "STRLEN b:1", "GETRANGE b:1 0 3", "SUBSTR b:1 0 3", "BITCOUNT b:1", "BITPOS b:1 1", "GETBIT b:1 7", "BITFIELD_RO b:1 GET u8 0",
	"MGET a:known b:1", "MGET b:1 a:known", "LCS a:known b:1", "LCS b:1 a:known LEN", "LCS b:1 b:1", "APPEND b:1 !", "SETRANGE b:1 0 4", "SETBIT b:1 1 1", "BITFIELD b:1 SET u8 0 1",
	"BITOP NOT a:out b:1", "BITOP AND a:out a:known b:1", "BITOP NOT b:1 a:known", "INCRBYFLOAT b:1 1", "INCR b:1", "EVAL return(redis.call('GET',KEYS[1])) 1 b:1",
	"EVAL return(redis.call('STRLEN',KEYS[1])) 1 b:1", "EVAL return(redis.call('GET','b:1')) 1 a:known", "EVAL_RO return(redis.call('GET',KEYS[1])) 1 b:1",
	"EVAL return(redis.call('COPY','b:1','a:copy')) 1 a:copy", "EVAL return(1) 2 a:known b:1",
	"SORT a:list BY b:* ALPHA", "SORT a:list GET b:*", "SORT a:list GET b:* STORE a:sorted", "SORT b:1", "COPY b:1 a:copy", "RENAME b:1 a:copy", "DUMP b:1", "MOVE b:1 1",
	"GETSET b:1 x", "GETDEL b:1", "SET b:1 x GET", "SET b:1 x", "PFCOUNT b:1", "PFMERGE a:out b:1", "OBJECT ENCODING b:1", "MEMORY USAGE b:1", "TYPE b:1", "EXISTS b:1",
	"HGET b:h f", "HSTRLEN b:h f", "HGETALL b:h", "HINCRBYFLOAT b:h f 1", "HRANDFIELD b:h 1 WITHVALUES", "HSET b:h f x", "EVAL return(redis.call('HGET',KEYS[1],'f')) 1 b:h",
}

// The gateway, which may read everything, answers nothing that the server would not. A user without a right
// to a key gets the server's answer, whatever the key holds, in and out of transactions, and whichever other
// rights the user lacks so that the gateway has to read with its own.
func TestOthersKeysAnswerNothing(t *testing.T) {
	t.Parallel()
	x := newTenants(t)
	value := fmt.Sprintf(`{"name":"Owner","card":"%s","valid":"11/29"} and what the owner's values have in common`, secretNumber)
	untagged := x.forged(secretNumber)[1]
	states := map[string]func(){
		"sealed": func() {
			do(x.owner, "DEL b:1 b:h")
			x.owner.Set(ctx, "b:1", value, 0)
			x.owner.HSet(ctx, "b:h", "f", value)
		},
		"plain": func() {
			do(x.direct, "DEL b:1 b:h")
			x.direct.Set(ctx, "b:1", "12", 0)
			x.direct.HSet(ctx, "b:h", "f", "12")
		},
		"missing": func() { do(x.direct, "DEL b:1 b:h") },
		"damaged": func() {
			do(x.direct, "DEL b:1 b:h")
			x.direct.Set(ctx, "b:1", untagged, 0)
			x.direct.HSet(ctx, "b:h", "f", untagged)
		},
		"other type": func() { do(x.direct, "DEL b:1 b:h"); do(x.direct, "RPUSH b:1 1"); do(x.direct, "SET b:h 1") },
	}
	o := x.direct.Options()
	for _, rights := range []string{"", "-getrange -get -hget -hgetall", "-watch", "-multi", "-eval -evalsha -getrange", "-@read"} {
		expect(t, x.direct, strings.TrimSpace("ACL SETUSER thief +@all -@admin -function -fcall -fcall_ro "+rights), "OK")
		plain := clientOf(t, o.Addr, as("thief", "pw"))
		for _, inside := range []string{"", "WATCH a:w", "MULTI"} {
			word, _, _ := strings.Cut(strings.ToLower(inside), " ")
			if rights != "" && !strings.Contains(rights, word) && !testenv.IsFull() {
				continue // combinations that only the full tests run
			}
			for _, command := range onOthers {
				answers := map[string]string{}
				for state, prepare := range states {
					prepare()
					do(x.direct, "DEL a:list a:copy a:sorted a:out")
					do(x.direct, "RPUSH a:list 1")
					do(x.direct, "SET a:known 4929_1234_5678_9012")
					before, _ := x.direct.Dump(ctx, "b:1").Result()
					conn := x.thief.Conn()
					got := run(conn, inside, command)
					_ = do(conn, "DISCARD")
					_ = do(conn, "UNWATCH")
					_ = conn.Close()
					answers[state] = got
					after, _ := x.direct.Dump(ctx, "b:1").Result()
					if before != after {
						t.Errorf("%q, %s: b:1 is another now (%s)", rights, command, state)
					}
					for _, secret := range []string{"4929 ", "Owner", "owner's"} {
						if strings.Contains(got, secret) {
							t.Errorf("%q, %s %s: %.200q", rights, inside, command, got)
						}
					}
				}
				for state, got := range answers {
					if rights == "-multi" && state == "damaged" {
						continue // without MULTI the server's answer can't be asked for
					}
					if got != answers["missing"] {
						t.Errorf("%q, %s %s: %s answers %.150q, missing %.150q", rights, inside, command, state, got, answers["missing"])
					}
				}
				if want := do(plain, command); inside == "" && !strings.Contains(want, "NOPERM") && !strings.Contains(want, "ermission") && answers["sealed"] != want {
					t.Errorf("%q, %s: %.150q, the server %.150q", rights, command, answers["sealed"], want)
				}
			}
		}
	}
}
