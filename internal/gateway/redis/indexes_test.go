package redis

import (
	"bufio"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// The indexes are those of the server to which the upstream's address leads now, also while the former one still
// answers.
func TestIndexesAfterTheUpstreamMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prefix atomic.Value // of the index in the server behind the address; "": no search module
		prefix.Store("")
		g := NewGateway(Config{Dial: func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go answerSearch(far, prefix.Load().(string))
			return near, nil
		}})
		g.indexes.start()
		defer g.indexes.stop()
		for _, moved := range []string{"", "a:", "b:", ""} {
			prefix.Store(moved)
			time.Sleep(longLivedConnTime + 2*indexPoll)
			synctest.Wait()
			for _, key := range []string{"a:1", "b:1"} {
				if got, want := g.indexes.mayCover([]byte(key)), moved == key[:2]; got != want {
					t.Errorf("behind the address is a server with an index over %q: %s is covered: %v", moved, key, got)
				}
			}
		}
	})
}

// An FT.CREATE that the server will refuse neither decompresses hashes in place nor leaves new ones uncompressed.
func TestRefusedIndexIsNotAnnounced(t *testing.T) {
	p := newParts(t)
	p.withSideServer(map[string]string{
		"MULTI": "+OK\r\n", "FT.CREATE": "+QUEUED\r\n", "DISCARD": "+OK\r\n", "SELECT": "+OK\r\n",
		"FT._LIST": "*1\r\n$3\r\nold\r\n", "SCAN": "*2\r\n$1\r\n0\r\n*0\r\n",
	})
	x := newIndexes(p.codec, p.user.sideConn.dialer, nil, false)
	defer x.stop()
	c := new(control)
	c.init(&Gateway{codec: p.codec, indexes: x}, &p.upstream, &p.user, nil)
	for _, test := range []struct {
		request   string
		announces bool
	}{
		{"FT.CREATE", false},
		{"FT.CREATE new", false},
		{"FT.CREATE new PREFIX 1 a:", false},
		{"FT.CREATE new PREFIX 1 a: SCHEMA", false},
		{"FT.CREATE old PREFIX 1 a: SCHEMA t TEXT", false},
		{"FT.CREATE new PREFIX 1 a: SCHEMA t TEXT", true},
		{"FT.CREATE new PREFIX 1 schema SCHEMA t TEXT", true},
		{"FT.CREATE new STOPWORDS 1 schema", false},
		{"FT.CREATE new STOPWORDS 3 prefix on schema SCHEMA t TEXT", true},
	} {
		if err := c.handle(requestOf(strings.Fields(test.request)...)); err != nil {
			t.Fatal(err)
		}
		p.expect(test.request)
		p.queued()
		x.mu.Lock()
		if n := len(x.announced) + len(x.sweeps); n > 0 != test.announces {
			t.Errorf("%s: announced %v, sweeps %v", test.request, x.announced, x.sweeps)
		}
		clear(x.announced)
		clear(x.sweeps)
		x.mu.Unlock()
	}
	// In another database the name may be free.
	space := "3"
	p.upstream.state.selected.Store(&space)
	if err := c.handle(requestOf("FT.CREATE", "old", "SCHEMA", "t", "TEXT")); err != nil || len(x.announced) == 0 {
		t.Errorf("database 3: %v, announced %v", err, x.announced)
	}
}

// answerSearch answers as a server with one index over hashes does, or as one without a search module.
func answerSearch(c net.Conn, prefix string) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		var buf []byte
		var args [][]byte
		for n := 0; n == 0; n, args = resp.Cut(buf, nil) {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			buf = append(buf, line...)
		}
		answer := "-ERR unknown command\r\n"
		switch name := strings.ToUpper(string(args[0])); {
		case name == "COMMAND" && prefix == "":
			answer = "*1\r\n*-1\r\n"
		case name == "COMMAND":
			answer = "*1\r\n*1\r\n$8\r\nft._list\r\n"
		case name == "FT._LIST" && prefix != "":
			answer = "*1\r\n$5\r\nindex\r\n"
		case name == "FT.INFO" && prefix != "":
			answer = "*2\r\n$16\r\nindex_definition\r\n*4\r\n$8\r\nkey_type\r\n$4\r\nHASH\r\n" +
				"$8\r\nprefixes\r\n*1\r\n" + string(resp.AppendBulk(nil, prefix))
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			return
		}
	}
}
