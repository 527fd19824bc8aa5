package mux

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// maxLoginReply limits a reply to the requests of assume, in bytes. That to HELLO is a map of a few hundred.
const maxLoginReply = 4 << 10

// assume gives a new connection an identity. An error of the server is returned as its text.
func assume(ctx context.Context, c net.Conn, id Identity) error {
	var requests [][]string
	login := id.User != "" || id.Password != ""
	switch {
	case id.Version == 3 && login:
		requests = append(requests, []string{"HELLO", "3", "AUTH", orDefault(id.User), id.Password})
	case id.Version == 3:
		requests = append(requests, []string{"HELLO", "3"})
	case id.User != "":
		requests = append(requests, []string{"AUTH", id.User, id.Password})
	case login:
		requests = append(requests, []string{"AUTH", id.Password})
	}
	if n, _ := strconv.Atoi(id.Database); n != 0 {
		requests = append(requests, []string{"SELECT", id.Database})
	}
	if len(requests) == 0 {
		return nil
	}
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	var b []byte
	for _, r := range requests {
		b = resp.AppendCommand(b, r...)
	}
	if _, err := c.Write(b); err != nil {
		return err
	}
	in := bufio.NewReaderSize(c, maxLoginReply)
	for _, r := range requests {
		if err := readLoginReply(in); err != nil {
			return fmt.Errorf("%s: %w", r[0], err)
		}
	}
	if in.Buffered() > 0 {
		return errUnexpected
	}
	return c.SetDeadline(time.Time{})
}

func orDefault(user string) string {
	if user == "" {
		return "default"
	}
	return user
}

// readLoginReply reads one reply, and returns it if it is an error.
func readLoginReply(in *bufio.Reader) error {
	var parse replies
	for first := true; ; first = false {
		if _, err := in.Peek(1); err != nil {
			return err
		}
		b, _ := in.Peek(in.Buffered())
		if first && b[0] == '-' {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return err
			}
			return fmt.Errorf("the server refuses it: %s", line[1:len(line)-2])
		}
		n, ended, err := parse.next(b)
		if err != nil {
			return err
		}
		if n == 0 {
			if _, err := in.Peek(len(b) + 1); err != nil {
				return io.ErrUnexpectedEOF
			}
			continue
		}
		_, _ = in.Discard(n)
		if ended {
			return nil
		}
	}
}
