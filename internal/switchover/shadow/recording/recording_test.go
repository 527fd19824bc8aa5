package recording

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
)

var start = time.Unix(1_700_000_000, 123)

func sample() []Record {
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	return []Record{
		{FromClient, 1, at(0), []byte("PING\r\n")},
		{FromServer, 1, at(3), []byte("+PONG\r\n")},
		{FromClient, 1 << 40, at(3), bytes.Repeat([]byte("x"), 300)},
		{End, 1, at(900), nil},
		{Partial, 1 << 40, at(5000), nil},
	}
}

func written(t testing.TB, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{"redis", start})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(slices.Clone(records), Record{Last, 0, start.Add(5 * time.Second), []byte("enough")}) {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func all(in *Reader) (out []Record, err error) {
	for {
		r, err := in.Next()
		if err != nil {
			return out, err
		}
		r.Bytes = bytes.Clone(r.Bytes)
		out = append(out, r)
	}
}

func TestRoundTrip(t *testing.T) {
	in, err := NewReader(bytes.NewReader(written(t, sample())))
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(in)
	if !errors.Is(err, io.EOF) || in.Protocol != "redis" || !in.Start.Equal(start) || len(got) != len(sample())+1 {
		t.Fatalf("%v, %+v, %d records", err, in.Header, len(got))
	}
	for i, want := range sample() {
		if r := got[i]; r.Kind != want.Kind || r.Conn != want.Conn || !r.At.Equal(want.At) || !bytes.Equal(r.Bytes, want.Bytes) {
			t.Errorf("record %d is %+v", i, r)
		}
	}
}

// A file that was cut off at any byte is read up to its last complete record.
func TestCutOffAnywhere(t *testing.T) {
	whole := written(t, sample())
	before := 0
	for n := range whole {
		in, err := NewReader(bytes.NewReader(whole[:n]))
		if err != nil {
			if !errors.Is(err, ErrTruncated) || before > 0 {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		got, err := all(in)
		if !errors.Is(err, ErrTruncated) || len(got) < before || len(got) > before+1 {
			t.Fatalf("%d bytes: %d records after %d, %v", n, len(got), before, err)
		}
		before = len(got)
	}
	if before != len(sample()) {
		t.Errorf("%d records before the last byte", before)
	}
}

func TestLongPiecesAreSeveral(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 2*MaxBytes/10+3)
	in, err := NewReader(bytes.NewReader(written(t, []Record{{FromServer, 1, start, long}})))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := all(in)
	if len(got) != 4 || !bytes.Equal(slices.Concat(got[0].Bytes, got[1].Bytes, got[2].Bytes), long) {
		t.Errorf("%d records", len(got))
	}
}

func TestWhatIsNoRecording(t *testing.T) {
	whole := written(t, nil)
	for name, b := range map[string][]byte{
		"text":    []byte("not a recording at all"),
		"version": append([]byte("cinchrec\x02"), whole[9:]...),
		"kind":    append(slices.Clone(whole[:23]), 9, 0, 0, 0),
		"length":  append(slices.Clone(whole[:23]), 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"time":    append(slices.Clone(whole[:23]), 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0),
	} {
		in, err := NewReader(bytes.NewReader(b))
		if err == nil {
			_, err = in.Next()
		}
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Parsed bytes marshal to records that parse to the same; no input makes the reader panic, or allocate more
// than there is.
func FuzzReader(f *testing.F) {
	f.Add(written(f, sample()))
	f.Add(written(f, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		got, _ := all(in)
		var again bytes.Buffer
		w, err := NewWriter(&again, in.Header)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		in, err = NewReader(&again)
		if err != nil {
			t.Fatal(err)
		}
		if back, _ := all(in); !reflect.DeepEqual(back, got) {
			t.Fatalf("%d records, and %d", len(got), len(back))
		}
	})
}

// encrypted creates an encrypted recording of some megabytes, and returns its identity.
func encrypted(t *testing.T) (name string, id *age.X25519Identity) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(t.TempDir(), "rec")
	f, err := Create(name, Header{"redis", start}, 1<<30, id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := f.Write(Record{FromClient, uint64(i), start, []byte(strings.Repeat("secret", 200))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Finish(Record{At: start, Bytes: []byte("enough")}); err != nil {
		t.Fatal(err)
	}
	return name, id
}

func TestEncryptedFile(t *testing.T) {
	name, id := encrypted(t)
	b, err := os.ReadFile(name)
	if err != nil || bytes.Contains(b, []byte("secret")) {
		t.Fatalf("%v, or the file shows what is in it", err)
	}
	if info, _ := os.Stat(name); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := Create(name, Header{}, 1<<30); !errors.Is(err, os.ErrExist) {
		t.Errorf("created again: %v", err)
	}
	if _, err := Open(name); !errors.Is(err, ErrEncrypted) {
		t.Errorf("without a key: %v", err)
	}
	other, _ := age.GenerateX25519Identity()
	var wrong *age.NoIdentityMatchError
	if _, err := Open(name, other); !errors.As(err, &wrong) {
		t.Errorf("with another key: %v", err)
	}
	in, err := Open(name, other, id)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s, err := Summarize(in.Reader)
	if err != nil || s.Connections != 1000 || s.Bytes != 1_200_000 || s.Truncated || s.Why != "enough" {
		t.Errorf("%+v, %v", s, err)
	}
}

// The complete chunks of an encrypted file that was cut off are read.
func TestEncryptedFileCutOff(t *testing.T) {
	name, id := encrypted(t)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{300_000, 600_000, len(whole) - 1} {
		if err := os.WriteFile(name, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := Open(name, id)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(in.Reader)
		if err != nil || !s.Truncated || s.Connections < (n-2*64<<10)/1300 || s.Connections == 0 {
			t.Errorf("%d bytes: %+v, %v", n, s, err)
		}
		_ = in.Close()
	}
	whole[len(whole)/2] ^= 1
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := Open(name, id)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if s, err := Summarize(in.Reader); err == nil {
		t.Errorf("a damaged file gives %+v", s)
	}
}

func TestLimitOfAFile(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		var to []age.Recipient
		if id, _ := age.GenerateX25519Identity(); sealed {
			to = append(to, id.Recipient())
		}
		name := filepath.Join(t.TempDir(), "rec")
		f, err := Create(name, Header{"redis", start}, 1<<20, to...)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = f.Write(Record{FromClient, 1, start, bytes.Repeat([]byte("x"), 10_000)})
		}
		if !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		if err := f.Finish(Record{At: start, Bytes: []byte("limit")}); err != nil {
			t.Error(err)
		}
		if info, _ := os.Stat(name); info.Size() > 1<<20 || info.Size() < 800_000 {
			t.Errorf("sealed %v: %d bytes", sealed, info.Size())
		}
	}
}
