// Command forward is the plainest proxy that Go allows: two io.Copy a connection. It is the
// yardstick for what a hop costs when nothing is looked at.
//
//	go run ./bench/forward LISTEN UPSTREAM
package main

import (
	"io"
	"log"
	"net"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: forward LISTEN UPSTREAM")
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go forward(client, os.Args[2])
	}
}

// plain hides that a connection can splice: in the kernel nothing could be looked at, so
// that would be no yardstick.
type plain struct{ io.ReadWriter }

func forward(client net.Conn, address string) {
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
	_, _ = io.Copy(plain{client}, plain{upstream})
}
