// Command forward is the plainest proxy that Go allows: two io.Copy a connection. It is the
// yardstick for what a hop costs when nothing is looked at. With -late it stands for a slow server: each piece of an answer
// waits so long.
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
	late := flag.Duration("late", 0, "how long each piece of an answer waits")
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

// plain hides that a connection can splice: in the kernel nothing could be looked at, so
// that would be no yardstick.
type plain struct{ io.ReadWriter }

// tardy writes so much later.
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
