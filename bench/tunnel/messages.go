package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

// grpcHead is the size of gRPC's message prefix in bytes.
const grpcHead = 5

// messages sends WriteRequests one after the other on one connection, each after the answer to the one
// before.
func (b *bench) messages() (string, error) {
	number := 40
	if *short {
		number = 4
	}
	corpus, err := remotewrite.Load(context.Background())
	if err != nil {
		return "", err
	}
	sink, err := listenSink()
	if err != nil {
		return "", err
	}
	receiver, err := startReceiver()
	if err != nil {
		return "", err
	}
	defer receiver.server.Stop()
	var t rig.Table
	t.Row("WriteRequests, of 2,000 series each but where 50 are named", "way", "bytes", "times smaller", "beside S2 by message", "CPU, ms", "time, ms")
	t.Rule(7)
	for _, data := range []struct {
		name string
		all  [][]byte
	}{
		{"A, as scraped", corpus.Scraped(2000, number)},
		{"A, scraped four times", corpus.Rescraped(2000, number, 4)},
		{"B, shuffled", corpus.Shuffled(2000, number)},
		{"A, 50 series each", corpus.Scraped(50, 25*number)},
		{"B, 50 series each", corpus.Shuffled(50, 25*number)},
	} {
		if err := b.carry(&t, data.name, data.all, sink, receiver); err != nil {
			return "", err
		}
	}
	return t.String(), nil
}

func (b *bench) carry(t *rig.Table, data string, all [][]byte, sink string, receiver *receiver) error {
	raw := 0
	for _, m := range all {
		raw += len(m) + grpcHead
	}
	s2 := 0
	row := func(way string, n int, cpu time.Duration, took string) {
		if s2 == 0 {
			s2 = n
		}
		t.Row(data, way, strconv.Itoa(n), fmt.Sprintf("%.2f", float64(raw)/float64(n)), fmt.Sprintf("%+.1f %%", 100*(float64(n)/float64(s2)-1)),
			fmt.Sprint(cpu.Milliseconds()), took)
	}
	for _, setting := range []codec.Setting{{Codec: codec.S2}, {Codec: codec.Zstd, Level: 1}, {Codec: codec.Zstd, Level: 3}} {
		n, took, err := byMessage(all, setting)
		if err != nil {
			return err
		}
		row("by message, "+setting.String(), n, took, "")
	}
	for _, name := range []string{direct, "zstd-1", "zstd-3", "zstd-6", ssh, stunnel, grpcColumns, grpcPlain3, grpcLink3, grpcLink6} {
		if !b.have(name) {
			continue
		}
		server, send := sink, send
		if isGRPC(name) {
			server, send = receiver.addr, receiver.send
		}
		w, err := b.open(server, name, 0, 0)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := send(w.addr, all); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		took := time.Since(began)
		up, _, err := w.link.Bytes()
		if err != nil {
			return err
		}
		row(label(name), int(up), w.cpu(), fmt.Sprint(took.Milliseconds()))
		w.close()
	}
	return nil
}

// byMessage returns the size of all messages compressed separately, gRPC's prefix included, and the time of
// compressing and decompressing them.
func byMessage(all [][]byte, setting codec.Setting) (sum int, took time.Duration, err error) {
	z, _ := libzstd.New()
	e := codec.New(codec.Options{Zstd: z})
	began := time.Now()
	for _, m := range all {
		out, err := e.Compress(nil, m, setting, nil)
		if err == nil {
			_, err = e.Decompress(nil, out, setting.Codec, len(m), nil)
		}
		if err != nil {
			return 0, 0, err
		}
		sum += len(out) + grpcHead
	}
	return sum, time.Since(began), nil
}

// listenSink accepts length-prefixed messages and answers each with a byte, as an ingester does.
func listenSink() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				log.Print(err)
				return
			}
			go sink(c)
		}
	}()
	return l.Addr().String(), nil
}

func sink(c net.Conn) {
	defer c.Close()
	for {
		var head [grpcHead]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[1:]))); err != nil {
			return
		}
		_, _ = c.Write([]byte{1})
	}
}

func send(addr string, all [][]byte) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, m := range all {
		head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m)))
		if _, err := c.Write(append(head, m...)); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}
