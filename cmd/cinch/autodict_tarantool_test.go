package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// loginsScript makes two users of one space.
const loginsScript = docsScript + `
	for _, user in ipairs{'alice', 'bob'} do
		box.schema.user.create(user, {password = 'pw'})
		box.schema.user.grant(user, 'read,write', 'space', 'docs')
	end`

// As on Redis, each user that writes under a rule has samples and a dictionary of its own.
func TestTarantoolLoginsHaveDictionariesOfTheirOwn(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	server := testenv.Tarantool(t, loginsScript)
	if code, out, errs := runCLI("tarantool", "init", "tarantool://"+server.Addr, "--user", "cinch"); code != exitOK {
		t.Fatal(out, errs)
	}
	direct := tuplesAt(t, server.Addr, "", "")
	g := startTarantoolServe(t, "tarantool://cinch:secret@"+server.Addr, fastTraining, "{name: docs, space: docs, field: body, setting: zstd-3, dictionary: auto}")
	defer g.stop(t)
	users := map[string]*tuples{"alice": tuplesAt(t, g.addr, "alice", "pw"), "bob": tuplesAt(t, g.addr, "bob", "pw")}
	worlds := map[string]*documents{"alice": {rand.New(rand.NewPCG(1, 1)), 0}, "bob": {rand.New(rand.NewPCG(2, 2)), 1}}
	number, id := map[string]uint32{}, 0
	write := func(n int) {
		for range n {
			for user, c := range users {
				id++
				c.put(id, string(worlds[user].next()))
				if h, err := envelope.ParseHeader([]byte(direct.get(id))); err == nil && h.HasDict {
					number[user] = h.Dict
				}
			}
		}
	}
	writeUntilApart(t, write, number)
	for user, foreign := range map[string]string{"alice": "sensorSerial", "bob": "customer"} {
		content := direct.eval("return string.hex(box.space.cinch_dictionaries:get(...)[3])", number[user])
		d, err := hex.DecodeString(fmt.Sprint(content[0]))
		if err != nil || len(d) < 100 {
			t.Fatal(err, len(d))
		}
		if bytes.Contains(d, []byte(foreign)) {
			t.Errorf("%s's dictionary holds %q, which is another's", user, foreign)
		}
	}
}
