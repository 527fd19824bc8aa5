// Command forward is the simplest proxy that Go allows: two io.Copy per connection. It is the baseline for
// the cost of a hop that inspects nothing. With -late it simulates a slow server: each piece of a response is
// delayed by that time.
//
//	go run ./bench/forward [-late TIME] LISTEN UPSTREAM
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"time"
)

func main() {
	late := flag.Duration("late", 0, "delay of each piece of an answer")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: forward [-late TIME] LISTEN UPSTREAM")
	}
	l, err := net.Listen("tcp", flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go forward(client, flag.Arg(1), *late)
	}
}

// plain hides that a connection can splice: data copied in the kernel could not be inspected, so it would be
// no fair baseline.
type plain struct{ io.ReadWriter }

// tardy delays each write.
type tardy struct {
	io.Writer
	late time.Duration
}

func (t tardy) Write(p []byte) (int, error) {
	time.Sleep(t.late)
	return t.Writer.Write(p)
}

func forward(client net.Conn, address string, late time.Duration) {
	defer client.Close()
	upstream, err := net.Dial("tcp", address)
	if err != nil {
		log.Print(err)
		return
	}
	defer upstream.Close()
	go func() {
		_, _ = io.Copy(plain{upstream}, plain{client})
		_ = upstream.(*net.TCPConn).CloseWrite()
	}()
	var answers io.Writer = plain{client}
	if late > 0 {
		answers = tardy{client, late}
	}
	_, _ = io.Copy(answers, plain{upstream})
}
