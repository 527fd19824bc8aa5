package pg

import (
	"bytes"
	"slices"
	"testing"
)

// Cut returns a message once its last byte has arrived, and not a byte earlier.
func TestCut(t *testing.T) {
	b := AppendQuery(nil, "SELECT 1")
	b = Append(b, Sync)
	first := len(b) - HeaderBytes
	for n := range b {
		m, ok, err := Cut(b[:n])
		if err != nil || ok != (n >= first) {
			t.Fatalf("%d bytes: %v, %v", n, ok, err)
		}
		if ok && (m.Type != Query || string(m.Body) != "SELECT 1\x00" || !bytes.Equal(m.Raw, b[:first])) {
			t.Fatalf("%d bytes: %q", n, m.Raw)
		}
	}
	for _, bad := range []string{"Q\x00\x00\x00\x03", "Q\xff\xff\xff\xff", "Q\x40\x00\x00\x00"} {
		if _, _, err := Cut([]byte(bad)); err == nil {
			t.Errorf("%q is cut", bad)
		}
	}
}

func TestStartup(t *testing.T) {
	b := AppendStartup(nil, "user", "alice", "database", "shop")
	n, code, err := StartupHead(b)
	if n != len(b) || code != 3<<16 || err != nil {
		t.Fatal(n, code, err)
	}
	got, err := StartupParameters(b)
	if err != nil || len(got) != 2 || got["user"] != "alice" || got["database"] != "shop" {
		t.Error(got, err)
	}
	if _, err := StartupParameters(b[:len(b)-3]); err == nil {
		t.Error("a parameter without an end is read")
	}
	if _, _, err := StartupHead([]byte("\x00\x00\x00\x07\x00\x03\x00\x00")); err == nil {
		t.Error("a length of 7 is taken")
	}
	if _, _, err := StartupHead([]byte("\x00\x01\x00\x00\x00\x03\x00\x00")); err == nil {
		t.Error("a length of 65536 is taken")
	}
}

func TestParts(t *testing.T) {
	if code := Code([]byte("SERROR\x00C40001\x00Mtext\x00\x00")); code != "40001" {
		t.Errorf("code %q", code)
	}
	if a, b, err := TwoStrings([]byte("s1\x00SELECT $1\x00\x00\x00")); a != "s1" || b != "SELECT $1" || err != nil {
		t.Error(a, b, err)
	}
	body := []byte("\x00\x01id\x00\x00\x00\x10\x00\x00\x02\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x01")
	columns, err := Columns(body)
	if err != nil || len(columns) != 1 || string(columns[0].Name) != "id" || columns[0].Table != 4096 || columns[0].Attribute != 2 || columns[0].Type != 23 || columns[0].Format != 1 {
		t.Errorf("%+v %v", columns, err)
	}
	var values []string
	row := []byte("\x00\x03\x00\x00\x00\x02ab\xff\xff\xff\xff\x00\x00\x00\x00")
	if err := Fields(row, func(_ int, v []byte) {
		if v == nil {
			values = append(values, "NULL")
			return
		}
		values = append(values, string(v))
	}); err != nil || !slices.Equal(values, []string{"ab", "NULL", ""}) {
		t.Errorf("%q %v", values, err)
	}
	for n := range body {
		if _, err := Columns(body[:n]); err == nil {
			t.Errorf("a description of %d bytes is read", n)
		}
	}
	for n := range row {
		if err := Fields(row[:n], func(int, []byte) {}); err == nil {
			t.Errorf("a row of %d bytes is read", n)
		}
	}
}

// No input makes a parser read past its end.
func FuzzParts(f *testing.F) {
	f.Add([]byte("\x00\x01id\x00\x00\x00\x10\x00\x00\x02\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x01"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = Columns(b)
		_ = Fields(b, func(int, []byte) {})
		_ = Code(b)
		_, _, _ = TwoStrings(b)
		_ = ResultFormats(b)
		if m, ok, _ := Cut(b); ok {
			_ = m.Raw[:len(m.Raw)]
		}
		if len(b) >= StartupHeaderBytes {
			if n, _, err := StartupHead(b); err == nil && n <= len(b) {
				_, _ = StartupParameters(b[:n])
			}
		}
	})
}

// ResultFormats finds the formats of the results after parameters of all kinds. For a truncated Bind it returns none.
func TestResultFormats(t *testing.T) {
	var bind []byte
	bind = append(bind, "portal\x00statement\x00"...)
	bind = append(bind, 0, 2, 0, 1, 0, 0)                      // formats of the parameters
	bind = append(bind, 0, 2, 0, 0, 0, 3, 'a', 'b', 'c')       // a parameter
	bind = append(bind, 0xff, 0xff, 0xff, 0xff)                // NULL
	whole := append(bytes.Clone(bind), 0, 3, 0, 0, 0, 1, 0, 1) // formats of the results
	if got := ResultFormats(whole); !slices.Equal(got, []int16{0, 1, 1}) {
		t.Errorf("%v", got)
	}
	for n := range whole {
		if got := ResultFormats(whole[:n]); len(got) > 0 {
			t.Errorf("cut off at %d: %v", n, got)
		}
	}
	for _, c := range []struct {
		formats []int16
		column  int
		want    int16
	}{{nil, 3, 0}, {[]int16{1}, 3, 1}, {[]int16{0, 1}, 1, 1}, {[]int16{0, 1}, 2, 0}} {
		if got := FormatOf(c.formats, c.column); got != c.want {
			t.Errorf("%v, column %d: %d", c.formats, c.column, got)
		}
	}
}
