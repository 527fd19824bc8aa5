package link

import (
	"bytes"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// stranger is a peer that does anything that the protocol allows.
type stranger struct {
	net.Conn
	granted byte // by the exit's hello
	stream  codec.StreamWriter
}

// meet exchanges hellos with an endpoint, opens the link, and starts read with the other end.
func meet(t *testing.T, e *Endpoint, read func(net.Conn)) *stranger {
	t.Helper()
	a, b := wires(t)
	s := &stranger{Conn: a}
	go func() {
		c, err := e.Accept(b, nil)
		if err != nil {
			t.Error(err)
			return
		}
		read(c)
	}()
	hello := wire.Hello{Lowest: 1, Highest: 1, Codecs: sends}.Append(nil)
	if _, err := s.Write(append(hello, byte(wire.Open))); err != nil {
		t.Fatal(err)
	}
	theirs, err := readHello(s)
	if err != nil {
		t.Fatal(err)
	}
	s.granted = theirs.Window
	return s
}

// begin sends the first piece of a stream with the largest granted window, or a Block if there is none.
func (s *stranger) begin(t *testing.T, e *codec.Engine, piece []byte) {
	t.Helper()
	f := wire.Frame{Kind: wire.Begin, Window: s.granted, RawLen: len(piece), Sum: crc32.Checksum(piece, castagnoli)}
	var coded []byte
	var err error
	if s.granted == 0 {
		f.Kind, f.Codec = wire.Block, byte(codec.Zstd)
		coded, err = e.Compress(nil, piece, codec.Setting{Codec: codec.Zstd, Level: 1}, nil)
	} else {
		if s.stream, err = e.StreamWriter(1, int(s.granted)); err == nil {
			coded, err = s.stream.Append(nil, piece)
		}
	}
	if err == nil {
		_, err = s.Write(append(wire.AppendCoded(nil, f, len(coded)), coded...))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The limit on histories holds whatever peers do with the windows of hellos, and when: all exchange hellos before any
// sends a piece.
func TestPromisesAreWithinTheBound(t *testing.T) {
	e := codec.New(codec.Options{})
	_, first := e.StreamBytes(1, firstWindow)
	limit := int64(24 * first)
	far := NewEndpoint(Config{Name: "far", Engine: e, History: limit, Stats: gateway.NewStats("far", "grpc")})
	t.Cleanup(far.Close)
	arrived := make(chan struct{}, 100)
	var reading sync.WaitGroup
	read := func(c net.Conn) {
		reading.Add(1)
		defer reading.Done()
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, 5000)); err == nil {
			arrived <- struct{}{}
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Error(err)
		}
	}
	all := make([]*stranger, 60)
	promised := 0
	for i := range all {
		all[i] = meet(t, far, read)
		if all[i].granted != 0 {
			promised++
		}
	}
	if promised == 0 || promised == len(all) {
		t.Errorf("%d of %d were promised a history", promised, len(all))
	}
	piece := bytes.Repeat([]byte("something that is said "), 300)[:5000]
	for i := range all { // the last first: those with a promise come behind those that take what is free
		all[len(all)-1-i].begin(t, e, piece)
		<-arrived
	}
	if h := far.State(); h.Most > limit || h.Used == 0 {
		t.Errorf("histories of %d bytes, and of %d at a time, the limit is %d", h.Used, h.Most, limit)
	}
	// A peer whose hello has reserved memory, and that uses and drops it, can use it again.
	for _, s := range all {
		if s.granted == 0 {
			continue
		}
		if _, err := s.Write([]byte{byte(wire.Drop)}); err != nil {
			t.Fatal(err)
		}
		s.stream.Close()
		s.begin(t, e, piece)
	}
	for _, s := range all {
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
	}
	reading.Wait()
	if e := far.cfg.Stats.Snapshot().Errors; len(e) > 0 {
		t.Errorf("%v", e)
	}
	if h := far.State(); h.Most > limit {
		t.Errorf("histories of %d bytes at a time, the limit is %d", h.Most, limit)
	}
	wantNone(t, far)
}

// finish sends FIN, and waits for the other end.
func (s *stranger) finish() error {
	_, err := s.Write([]byte{byte(wire.Fin)})
	if err == nil {
		_, err = io.Copy(io.Discard, s)
	}
	_ = s.Close()
	return err
}
