package grpc

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// slowConn shows how its writes come, and takes them only when told to.
type slowConn struct {
	net.Conn
	writes  chan []byte
	proceed chan struct{}
}

func (c *slowConn) Write(p []byte) (int, error) {
	c.writes <- bytes.Clone(p)
	<-c.proceed
	return c.Conn.Write(p)
}

// What is written while the system is busy goes out at once afterwards, in order, and no more
// than a bounded amount waits for it.
func TestWritesAreGathered(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	slow := &slowConn{near, make(chan []byte, 10), make(chan struct{})}
	c, _ := newBatchConn(slow)
	_, _ = io.WriteString(c, "a")
	<-slow.writes
	var want []byte
	for i := range 100 {
		p := bytes.Repeat([]byte{byte(i)}, 100)
		want = append(want, p...)
		_, _ = c.Write(p)
	}
	blocked := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, batchWrite))
		blocked <- err
	}()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	select {
	case <-blocked:
		t.Error("more was taken than may wait")
	case <-time.After(20 * time.Millisecond):
	}
	slow.proceed <- struct{}{}
	if got := <-slow.writes; !bytes.Equal(got, want) {
		t.Errorf("the second write has %d bytes, want %d", len(got), len(want))
	}
	close(slow.proceed)
	if err := <-blocked; err != nil {
		t.Error(err)
	}
	_ = c.Close()
}

// Close lets go what was written, and no one write for ever.
func TestGatheredCloses(t *testing.T) {
	near, far := net.Pipe()
	c, _ := newBatchConn(near)
	_, _ = io.WriteString(c, "the last words")
	_ = c.Close()
	if got, err := io.ReadAll(far); string(got) != "the last words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("written after Close")
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("read after Close")
	}

	near, far = net.Pipe() // which nobody reads
	defer far.Close()
	c, _ = newBatchConn(near)
	failed := make(chan error, 1)
	go func() {
		for {
			if _, err := c.Write(make([]byte, batchWrite)); err != nil {
				failed <- err
				return
			}
		}
	}()
	time.Sleep(time.Millisecond)
	_ = c.Close()
	<-failed
}

// An error of the system reaches the next write.
func TestGatheredFails(t *testing.T) {
	near, far := net.Pipe()
	c, _ := newBatchConn(near)
	defer c.Close()
	_ = far.Close()
	testenv.Eventually(t, "an error", func() bool {
		_, err := c.Write([]byte("x"))
		return err != nil
	})
}
