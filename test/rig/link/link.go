// Package link emulates a network link between processes of one machine: a round trip, and a rate that all
// connections share in each direction. The link runs in a separate process, so that its CPU time is not
// counted as another's: the program that uses it starts itself again.
package link

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// command is the first argument of a process that only serves links.
const command = "cinch-bench-link"

// Child serves links and does not return if this process was started by [Start]. A program that uses links
// calls it first in main.
func Child() {
	if len(os.Args) < 2 || os.Args[1] != command {
		return
	}
	if err := serveLinks(os.Args[2:], os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// serveLinks opens a link for each LISTEN=SERVER and prints its address. For every line that it reads it
// prints the bytes that all links carried up and down. It returns at the end of its input.
func serveLinks(args []string, in io.Reader, out io.Writer) error {
	roundTrip, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	mbit, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	var all []*link
	for _, ends := range args[2:] {
		listen, server, _ := strings.Cut(ends, "=")
		k, err := startLink(listen, server, roundTrip, mbit)
		if err != nil {
			return err
		}
		all = append(all, k)
		fmt.Fprintln(out, k.listener.Addr())
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var up, down int64
		for _, k := range all {
			up, down = up+k.up.bytes.Load(), down+k.down.bytes.Load()
		}
		fmt.Fprintln(out, up, down)
	}
	return nil
}

// Links is a process with one link to each of several servers.
type Links struct {
	Addrs []string // addresses that the links listen on

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start opens a link for each of ends, LISTEN=SERVER. mbit is the rate in megabits a second, 0 for no limit.
func Start(roundTrip time.Duration, mbit float64, ends ...string) (*Links, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{command, roundTrip.String(), fmt.Sprint(mbit)}, ends...)
	l := &Links{cmd: exec.Command(self, args...)}
	l.cmd.Stderr = os.Stderr
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.out = bufio.NewReader(out)
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	for range ends {
		line, err := l.out.ReadString('\n')
		if err != nil {
			l.Stop()
			return nil, err
		}
		l.Addrs = append(l.Addrs, strings.TrimSpace(line))
	}
	return l, nil
}

// Bytes returns the bytes that the links have carried so far.
func (l *Links) Bytes() (up, down int64, err error) {
	if _, err = fmt.Fprintln(l.in); err != nil {
		return 0, 0, err
	}
	line, err := l.out.ReadString('\n')
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(line, &up, &down)
	return up, down, err
}

// Stop ends the process and its connections.
func (l *Links) Stop() {
	_ = l.in.Close()
	_ = l.cmd.Wait()
}
