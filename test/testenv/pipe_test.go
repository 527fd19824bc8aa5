package testenv

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		if n, err := a.Write([]byte("hello")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		_ = a.(interface{ CloseWrite() error }).CloseWrite()
		if _, err := a.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("written after the end: %v", err)
		}
		if got, err := io.ReadAll(b); string(got) != "hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		_ = b.SetWriteDeadline(time.Now().Add(time.Hour))
		if n, err := b.Write(make([]byte, pipeBytes+1)); n != pipeBytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write that finds no reader: %d, %v", n, err)
		}
		_ = b.SetWriteDeadline(time.Time{})
		if n, err := io.ReadFull(a, make([]byte, pipeBytes)); n != pipeBytes || err != nil {
			t.Error(n, err)
		}
		_ = a.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read that finds nothing: %v", err)
		}
		_ = a.Close()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("written to one that is closed: %v", err)
		}
	})
}
