package grpccodec

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// lines returns compressible text of n bytes.
func lines(n int) []byte {
	return []byte(strings.Repeat("one line is like the next, but not quite 0123456789\n", n/50+1)[:n])
}

func packedBy(t *testing.T, s *Set, name string, src []byte) []byte {
	t.Helper()
	packed, err := s.AppendCompress(nil, src, name)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// idleStates counts the states in the pools.
func (s *Set) idleStates() (encoders, decoders int) {
	for _, p := range s.encoders {
		encoders += len(p.states)
	}
	for _, p := range s.decoders {
		decoders += len(p.states)
	}
	return encoders, decoders
}

func checkRest(t *testing.T, s *Set, wantEncoders, wantDecoders int) {
	t.Helper()
	if e, d := s.InFlight(); e+d != 0 {
		t.Errorf("%d encoders and %d decoders are still out", e, d)
	}
	if e, d := s.idleStates(); e != wantEncoders || d != wantDecoders {
		t.Errorf("%d encoders and %d decoders lie idle, want %d and %d", e, d, wantEncoders, wantDecoders)
	}
}

func reader(t *testing.T, s *Set, name string, r io.Reader) *Reader {
	t.Helper()
	c, err := s.compressor(name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Decompress(r)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*Reader)
}

func TestReaderIsHandedBackOnce(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			s := NewSet(Options{MaxInFlight: 3})
			packed := packedBy(t, s, name, lines(300_000))
			for what, leave := range map[string]func(*Reader) error{
				"at the end":   func(r *Reader) error { _, err := io.Copy(io.Discard, r); return err },
				"in the midst": func(r *Reader) error { _, err := r.Read(make([]byte, 100)); return err },
				"unread":       func(r *Reader) error { return nil },
			} {
				r := reader(t, s, name, bytes.NewReader(packed))
				if err := leave(r); err != nil {
					t.Fatal(what, err)
				}
				for range 2 {
					if err := r.Close(); err != nil {
						t.Fatal(what, err)
					}
				}
				if n, err := r.Read(make([]byte, 10)); n != 0 || err != io.EOF {
					t.Errorf("%s: reading after Close gave %d bytes and %v", what, n, err)
				}
				r.Close()
			}
			checkRest(t, s, 1, 1)
		})
	}
}

func TestReaderGoesOnReportingAnError(t *testing.T) {
	broken := errors.New("broken")
	for _, name := range names {
		s := NewSet(Options{})
		packed := packedBy(t, s, name, lines(300_000))
		r := reader(t, s, name, io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), iotest.ErrReader(broken)))
		_, err := io.Copy(io.Discard, r)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		for range 2 {
			if n, again := r.Read(make([]byte, 10)); n != 0 || again != err {
				t.Errorf("%s: %d bytes and %v after %v", name, n, again, err)
			}
			r.Close()
		}
		// The decoder can be used as before.
		if raw, err := s.AppendDecompress(nil, packed, name, 300_000); err != nil || len(raw) != 300_000 {
			t.Errorf("%s: %d bytes and %v after an error", name, len(raw), err)
		}
		checkRest(t, s, 1, 1)
	}
}

func TestWriterIsHandedBackOnce(t *testing.T) {
	for _, name := range names {
		s := NewSet(Options{})
		c, _ := s.compressor(name)
		w, _ := c.Compress(io.Discard)
		if _, err := w.Write(lines(1000)); err != nil {
			t.Fatal(name, err)
		}
		for range 3 {
			if err := w.Close(); err != nil {
				t.Fatal(name, err)
			}
		}
		if _, err := w.Write(lines(10)); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: writing after Close gave %v", name, err)
		}
		checkRest(t, s, 1, 0)
	}
}

// failing fails, or panics, at the first Write.
type failing struct {
	err   error
	panic any
}

func (f failing) Write([]byte) (int, error) {
	if f.panic != nil {
		panic(f.panic)
	}
	return 0, f.err
}

func TestWriterDropsItsEncoderAfterAnError(t *testing.T) {
	full := errors.New("full")
	for _, name := range names {
		for _, to := range []failing{{err: full}, {panic: "out of luck"}} {
			s := NewSet(Options{MaxInFlight: 1})
			c, _ := s.compressor(name)
			w, _ := c.Compress(to)
			var err error
			for range 256 { // grpc-go doesn't Close after an error of Write
				if _, err = w.Write([]byte(random(t, 100_000))); err != nil {
					break
				}
			}
			if err == nil || to.err != nil && !errors.Is(err, full) {
				t.Errorf("%s: %v", name, err)
			}
			checkRest(t, s, 0, 0)
			if again := w.Close(); again == nil {
				t.Errorf("%s: Close is content after %v", name, err)
			}
			checkRest(t, s, 0, 0)
			// Also at Close, if everything fits into the encoder.
			w, _ = c.Compress(to)
			w.Write([]byte("short"))
			if err := w.Close(); err == nil {
				t.Errorf("%s: nothing was written, and Close is content", name)
			}
			checkRest(t, s, 0, 0)
		}
	}
}

func random(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// A goroutine that holds the only encoder may wait for the only decoder.
func TestAnEncoderMayWaitForADecoder(t *testing.T) {
	s := NewSet(Options{MaxInFlight: 1})
	s.encoding.patient, s.decoding.patient = long, long
	c, _ := s.compressor("zstd")
	var out bytes.Buffer
	w, _ := c.Compress(&out)
	w.Write([]byte("first"))
	raw, err := s.AppendDecompress(nil, packedWithout(t, "zstd", lines(1000)), "zstd", 1000)
	if err != nil || len(raw) != 1000 {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func packedWithout(t *testing.T, name string, src []byte) []byte {
	t.Helper()
	return packedBy(t, NewSet(Options{}), name, src)
}

// grpc-go before 1.82 closes no reader: one that is abandoned at a size limit must still return its turn.
func TestAbandonedReadersGiveTheirTurnBack(t *testing.T) {
	s := NewSet(Options{MaxInFlight: 1})
	s.decoding.patient = long
	packed := packedBy(t, s, "zstd", lines(300_000))
	for range 3 {
		reader(t, s, "zstd", bytes.NewReader(packed)).Read(make([]byte, 10))
		for _, d := s.InFlight(); d > 0; _, d = s.InFlight() {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	}
}

func TestMaxDecodedBytes(t *testing.T) {
	for _, name := range names {
		for _, limit := range []int64{999, 1000, 1001} {
			s := NewSet(Options{MaxDecodedBytes: limit})
			r := reader(t, s, name, bytes.NewReader(packedBy(t, s, name, lines(1000))))
			n, err := io.Copy(io.Discard, r)
			begins := limit
			if name == "cinch-proto" { // decompressed as a whole
				begins = 0
			}
			if limit < 1000 && (!errors.Is(err, ErrTooLarge) || n != begins) || limit >= 1000 && (err != nil || n != 1000) {
				t.Errorf("%s, at most %d bytes: %d and %v", name, limit, n, err)
			}
			checkRest(t, s, 1, 1)
		}
	}
}

// connect-go's interfaces, matched structurally.
var (
	_ interface {
		io.Writer
		Close() error
		Reset(io.Writer)
	} = (*Writer)(nil)
	_ interface {
		io.Reader
		Close() error
		Reset(io.Reader) error
	} = (*Reader)(nil)
)

// TestReset uses handles like connect-go's pools do: Reset, use, Close, and a Reset to nil before they are
// put back.
func TestReset(t *testing.T) {
	s := NewSet(Options{MaxInFlight: 1})
	s.encoding.patient, s.decoding.patient = long, long
	for _, name := range names {
		w, err := s.NewWriter(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.NewReader(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			var packed bytes.Buffer
			w.Reset(&packed)
			if i == 1 { // a message that its sender abandoned
				w.Write(lines(10))
				w.Reset(&packed)
			}
			w.Write(lines(1000 + i))
			if err := w.Close(); err != nil {
				t.Fatal(name, err)
			}
			w.Reset(io.Discard)
			r.Reset(&packed)
			raw, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(raw, lines(1000+i)) {
				t.Fatalf("%s: %d bytes and %v", name, len(raw), err)
			}
			r.Close()
			r.Reset(strings.NewReader(""))
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"zstd": "zstd", "zstd-1": "zstd", "s2-2": "s2", "gzip-6": "gzip", "minlz-3": "minlz", "lz4-9": "lz4", "snappy": "snappy"} {
		if got, err := WireName(name); got != want || err != nil {
			t.Errorf("%s is %q on the wire, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "identity", "raw", "zlib", "zstd-23", "zstd-0", "zstd@00000001", "snappy-4", "Zstd", "br"} {
		if _, err := New(name, Options{}); !errors.Is(err, ErrUnknownName) || !strings.Contains(err.Error(), "encodings are zstd, minlz, s2, lz4, snappy, gzip,") {
			t.Errorf("%q: %v", name, err)
		}
		if out, err := NewSet(Options{}).AppendCompress([]byte("x"), nil, name); !errors.Is(err, ErrUnknownName) || string(out) != "x" {
			t.Errorf("%q: %v", name, err)
		}
	}
	c, err := New("zstd-9", Options{Name: "zstd-9"})
	if err != nil || c.Name() != "zstd-9" {
		t.Errorf("%v", err)
	}
	if err := Register("zstd-1", "zstd-3"); err == nil {
		t.Error("two compressors of one name were registered")
	}
}
