package redis

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
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
	testenv.AnswerRedis(c, func(args []string) string {
		switch name := strings.ToUpper(args[0]); {
		case name == "COMMAND" && prefix == "":
			return "*1\r\n*-1\r\n"
		case name == "COMMAND":
			return "*1\r\n*1\r\n$8\r\nft._list\r\n"
		case name == "FT._LIST" && prefix != "":
			return "*1\r\n$5\r\nindex\r\n"
		case name == "FT.INFO" && prefix != "":
			return "*2\r\n$16\r\nindex_definition\r\n*4\r\n$8\r\nkey_type\r\n$4\r\nHASH\r\n" +
				"$8\r\nprefixes\r\n*1\r\n" + string(resp.AppendBulk(nil, prefix))
		}
		return "-ERR unknown command\r\n"
	})
}
