package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Each login that writes under a rule has samples and a dictionary of its own: no value of one login is used for a
// dictionary of another.
func TestLoginsHaveDictionariesOfTheirOwn(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	server := testenv.Redis(t)
	direct := connectTo(t, server.Addr)
	g := startAuto(t, server.Addr)
	users := map[string]*goredis.Client{}
	worlds := map[string]*documents{"alice": {rand.New(rand.NewPCG(1, 1)), 0}, "bob": {rand.New(rand.NewPCG(2, 2)), 1}}
	for user := range worlds {
		if err := direct.Do(t.Context(), "ACL", "SETUSER", user, "on", ">pw", "~doc:"+user+":*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
		o := *g.client.Options()
		o.Username, o.Password = user, "pw"
		users[user] = goredis.NewClient(&o)
		t.Cleanup(func() { _ = users[user].Close() })
	}
	number := map[string]uint32{}
	written := 0
	write := func(n int) {
		for range n {
			written++
			for user, c := range users {
				key := fmt.Sprintf("doc:%s:%d", user, written%4000)
				if err := c.Set(t.Context(), key, worlds[user].next(), 0).Err(); err != nil {
					t.Fatal(err)
				}
				stored, _ := direct.Get(t.Context(), key).Bytes()
				if h, err := envelope.ParseHeader(stored); err == nil && h.HasDict {
					number[user] = h.Dict
				}
			}
		}
	}
	writeUntilApart(t, write, number)
	dicts := storeredis.NewDicts(storeredis.DictsOptions{Client: direct})
	for user, foreign := range map[string]string{"alice": "sensorSerial", "bob": "customer"} {
		d, err := dicts.Dictionary(number[user])
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(d.Content(), []byte(foreign)) {
			t.Errorf("%s's dictionary holds %q, which is another's", user, foreign)
		}
	}
	// After an AUTH without a reply yet, the writer is unknown.
	conn := users["alice"].Conn()
	defer conn.Close()
	cmds, err := conn.Pipelined(context.Background(), func(p goredis.Pipeliner) error {
		p.Do(t.Context(), "AUTH", "bob", "pw")
		p.Set(t.Context(), "doc:bob:behind", worlds["bob"].next(), 0)
		return nil
	})
	if err != nil {
		t.Fatal(cmds, err)
	}
	stored, _ := direct.Get(t.Context(), "doc:bob:behind").Bytes()
	if h, err := envelope.ParseHeader(stored); err == nil && h.HasDict && h.Dict != number["bob"] {
		t.Errorf("behind AUTH a value names %08x", h.Dict)
	}
}

// writeUntilApart writes until alice and bob have different dictionaries. write sets number to the dictionary that
// the latest value of each login names.
func writeUntilApart(t *testing.T, write func(n int), number map[string]uint32) {
	t.Helper()
	write(450)
	testenv.Eventually(t, "both have a dictionary", func() bool {
		write(5)
		time.Sleep(betweenWrites)
		return len(number) == 2
	})
	if number["alice"] == number["bob"] {
		t.Fatalf("both have %08x", number["bob"])
	}
}
