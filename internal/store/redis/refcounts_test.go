package redis

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A count stays on its connection: a new one may lead to another process, in which the cursor of SCAN or HSCAN would
// lead past values.
func TestCountStaysOnItsConnection(t *testing.T) {
	x := testDict(t, "counted")
	sealed, _ := sealedBy(t, x)
	bulk := func(s string) string { return string(resp.AppendBulk(nil, s)) }
	o := &goredis.Options{
		ConnMaxLifetime: time.Nanosecond, // the pool replaces the connection whenever it can
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			begun := map[string]bool{}
			go testenv.AnswerRedis(far, func(args []string) string {
				switch name := strings.ToUpper(args[0]); name {
				case "INFO":
					return bulk("db0:keys=1,expires=0\r\n")
				case "TYPE":
					return "+hash\r\n"
				case "SCAN", "HSCAN":
					cursor := args[len(args)-5]
					found := map[string]string{"SCAN": "*1\r\n" + bulk("h"), "HSCAN": "*2\r\n" + bulk("f") + bulk(sealed)}
					switch {
					case cursor == "0":
						begun[name] = true
						return "*2\r\n" + bulk("7") + "*0\r\n"
					case begun[name]:
						return "*2\r\n" + bulk("0") + found[name]
					}
					return "*2\r\n" + bulk("0") + "*0\r\n"
				}
				return "-ERR unknown command\r\n"
			})
			return near, nil
		},
	}
	c, err := Count(t.Context(), o)
	if err != nil || c.ByDict[x.Number()] != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}
