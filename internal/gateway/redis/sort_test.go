package redis

import (
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

func TestSorterSendsWeightsThatItMeets(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	p.answer(func(o *entryData) {
		o.answer = answer{head: '*', list: [][]byte{[]byte(lua.Marker), []byte(env)}}
	}, given)
	if err := p.stored.sorter.sort(requestOf("SORT", "l", "BY", "w*")); err != nil {
		t.Fatal(err)
	}
	begin, end := "EVAL SORTER 1 l "+envelope.Magic+" w*   ", "SORT l BY w*"
	p.expect(begin+"0 0 "+end, begin+"1 "+env+" "+lengthy+" 0 "+end)
}

func TestSorterWithoutScripts(t *testing.T) {
	p := newParts(t)
	p.user.lua.denied = true
	for request, want := range map[string]kind{"SORT l": kindReply, "SORT l BY w*": kindRefuse, "SORT l GET k* STORE m": kindRefuse, "SORT l GET k*": kindReply} {
		if err := p.stored.sorter.sort(requestOf(strings.Fields(request)...)); err != nil {
			t.Fatal(err)
		}
		if e := p.queued(); e.kind != want {
			t.Errorf("%s: kind %d, want %d", request, e.kind, want)
		}
	}
}

func TestSortOverSealedValues(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	direct, c := clientOf(t, sock), clientOf(t, path)
	value := func(first string) string { return first + long }
	magic := envelope.Magic + "x"
	for key, v := range sorted(map[string]string{"w:a": value("2"), "w:b": value("1"), "w:c": magic, "v:a": value("A"), "v:b": "short"}) {
		if err := c.Set(ctx, key, v, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, c, "RPUSH l a b c", "3")
	order := fmt.Sprint([]string{"b", "a", "c"})
	expect(t, c, "SORT l BY w:* ALPHA", order, "SORT_RO l BY w:* ALPHA", order,
		"SORT l BY w:* ALPHA GET v:* GET #", fmt.Sprint([]any{"short", "b", value("A"), "a", nil, "c"}),
		"SORT l BY w:* ALPHA GET w:*", fmt.Sprint([]string{value("1"), value("2"), magic}),
		"SORT l BY w:* ALPHA GET w:* GET v:* STORE out", "6",
		"LRANGE out 0 -1", fmt.Sprint([]string{value("1"), "short", value("2"), value("A"), magic, ""}))
	expect(t, direct, "LRANGE out 0 -1", fmt.Sprint([]string{value("1"), "short", value("2"), value("A"), magic, ""}))
	if !isSealed(t, direct, "w:a") || !isSealed(t, direct, "w:c") {
		t.Error("SORT left weights plain")
	}
	if err := c.RPush(ctx, "odd", magic, "a").Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SORT odd GET # GET v:* ALPHA STORE out", "4", "LRANGE out 0 -1", fmt.Sprint([]string{"a", value("A"), magic, ""}))
	expect(t, c, "SORT_RO l STORE x", "error: ERR syntax error", "SORT l BY w:* STORE", "error: ERR syntax error", "GET w:c", magic)
}

// A transaction may replace the key that it sorts, which may have had another type.
func TestSortOfKeyThatTheTransactionReplaces(t *testing.T) {
	t.Parallel()
	path, _ := startGateway(t, startServer(t))
	c := clientOf(t, path)
	for key, v := range sorted(map[string]string{"w:a": "2" + long, "w:b": "1" + long, "k": "a string"}) {
		if err := c.Set(ctx, key, v, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Del(ctx, "k")
		p.RPush(ctx, "k", "a", "b")
		p.Do(ctx, "SORT", "k", "BY", "w:*", "ALPHA", "GET", "w:*", "STORE", "out")
		return nil
	})
	if want := "the value was compressed while this transaction was queued"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("EXEC: %v, want %q", err, want)
	}
	expect(t, c, "LRANGE out 0 -1", "[]")
}
