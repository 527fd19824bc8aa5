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

// The indexes are those of the server to which the upstream's address leads now, even while the former server still
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
