package redis

import (
	"bufio"
	"context"
	"strings"
)

// askClosed asks the server, on a connection that doesn't log in, whether it is there: one that asks
// for a login does not say.
func (g *Gateway) askClosed(ctx context.Context) (closed bool, err error) {
	c, err := g.dial(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	if at, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(at)
	}
	if _, err = c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return false, err
	}
	line, err := bufio.NewReaderSize(c, 128).ReadString('\n')
	return strings.HasPrefix(line, "-NOAUTH"), err
}
