package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Every command of each server version has a row in the table with its arity, and key positions that the
// table gives agree with the server's.
func TestTableAgreesWithServer(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		c := clientOf(t, l.Start(t).Addr, func(o *goredis.Options) { o.Network = "tcp" })
		commands, err := c.Command(ctx).Result()
		if err != nil || len(commands) < 200 {
			t.Fatal(len(commands), err)
		}
		tableAgrees(t, commands)
	})
}

func tableAgrees(t *testing.T, commands map[string]*goredis.CommandInfo) {
	t.Helper()
	table := newTable()
	for name, info := range commands {
		row := table.lookup([]byte(name))
		if row == unknownCommand {
			t.Errorf("%s: not in the table of commands.go: a row of valueCommands if values are among its arguments or in its reply, or if it computes on one, else a word of verbatimCommands", name)
			continue
		}
		if row.strategy != verbatim && row.arity != int(info.Arity) {
			t.Errorf("%s: arity %d, the server says %d", name, row.arity, info.Arity)
		}
		valuesAgree(t, row, info)
		if row.keys.step == 0 || row.keys.numKeys > 0 {
			continue
		}
		got := fmt.Sprint(row.keys.first, row.keys.last, row.keys.step)
		if want := fmt.Sprint(info.FirstKeyPos, info.LastKeyPos, info.StepCount); got != want && name != "bitop" {
			t.Errorf("%s: keys %s, the server says %s", name, got, want)
		}
	}
}

// valuesAgree checks assumptions about rows with values: session.handle and valueRewriter.prepareReply take the first
// argument as the first key, and valueRewriter.prepareReply treats commands beginning with h as hash commands.
func valuesAgree(t *testing.T, row *command, info *goredis.CommandInfo) {
	t.Helper()
	switch {
	case row.strategy != values, row.reply == shapeAny, row.args.kind == stringValues:
		return
	case row.name == "xread", row.name == "xreadgroup", row.name == "xinfo": // valueRewriter.prepareReply handles them
		return
	}
	if info.FirstKeyPos != 1 {
		t.Errorf("%s: its first key is argument %d, which session.handle and valueRewriter.prepareReply do not know", row.name, info.FirstKeyPos)
	}
	if ofHashes := slices.Contains(info.ACLFlags, "@hash"); ofHashes != (row.name[0] == 'h') {
		t.Errorf("%s: on hashes: %v, which valueRewriter.prepareReply tells by the first letter", row.name, ofHashes)
	}
}

// Commands whose values are compressed count as writes in the store.
func TestWritersAreCounted(t *testing.T) {
	for name, row := range newTable() {
		switch row.args.kind {
		case stringValue, stringValues, hashValues:
			if !slices.Contains(storeredis.Writers, name) {
				t.Errorf("%s seals values, and is not among the Writers of internal/store/redis, by which a plan counts writes", name)
			}
		}
	}
}

func TestLookup(t *testing.T) {
	table := newTable()
	for name, want := range map[string]string{
		"get": "get", "GET": "get", "GeT": "get", "getx": "other", "": "other",
		"averyveryverylongcommandnamethatnoserverknows": "other", "get\x00": "other",
	} {
		if got := table.lookup([]byte(name)).name; got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	name := []byte("HINCRBYFLOAT")
	if n := testing.AllocsPerRun(100, func() { table.lookup(name) }); n != 0 {
		t.Errorf("lookup allocates %v times", n)
	}
}

func TestFindKeys(t *testing.T) {
	table := newTable()
	for request, want := range map[string]string{
		"bitop and d a b":        "[d a b]",
		"append k v":             "[k]",
		"lcs a b idx":            "[a b]",
		"eval s 2 a b c":         "[a b]",
		"eval s 0 c":             "[]",
		"eval s 3 a b":           "refused",
		"eval s -1 a":            "refused",
		"eval s x a":             "refused",
		"eval s 9999999999999 a": "refused",
	} {
		args := fields(request)
		keys, ok := table.lookup(args[0]).keys.find(args)
		got := fmt.Sprintf("%s", keys)
		if !ok {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

func fields(s string) (args [][]byte) {
	for f := range strings.FieldsSeq(s) {
		args = append(args, []byte(f))
	}
	return args
}

func TestEveryControlHasAHandler(t *testing.T) {
	rows := 0
	for name, row := range newTable() {
		if row.strategy == controls {
			rows++
			if handlers[name] == nil {
				t.Errorf("%s has none", name)
			}
		}
	}
	if rows != len(handlers) {
		t.Errorf("%d handlers for %d commands", len(handlers), rows)
	}
}
