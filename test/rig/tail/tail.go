// Package tail keeps the end of a process's output.
package tail

import "sync"

// Buffer keeps the last bytes written. It may be read while it is written.
type Buffer struct {
	MaxBytes int // to keep; 0: all

	mu  sync.Mutex
	buf []byte
}

// Write appends p and never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - b.MaxBytes; b.MaxBytes > 0 && over > 0 {
		b.buf = append(b.buf[:0], b.buf[over:]...)
	}
	return len(p), nil
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
