package testenv

import (
	"bufio"
	"net"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// AnswerRedis answers the requests of a connection as answer says, which gets their words and returns replies in RESP.
// It closes the connection when the client has.
func AnswerRedis(c net.Conn, answer func(args []string) string) {
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
		words := make([]string, len(args))
		for i, a := range args {
			words[i] = string(a)
		}
		if _, err := c.Write([]byte(answer(words))); err != nil {
			return
		}
	}
}
