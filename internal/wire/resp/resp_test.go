package resp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestParseInt(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 9, 10, 512 << 20, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1} {
		if got, ok := ParseInt([]byte(strconv.FormatInt(n, 10))); !ok || got != n {
			t.Errorf("ParseInt(%d) = %d, %v", n, got, ok)
		}
	}
	for _, s := range []string{
		"", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1.0", "0x1", "1e3", "a",
		"9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999", "111111111111111111111",
	} {
		if n, ok := ParseInt([]byte(s)); ok {
			t.Errorf("ParseInt(%q) = %d, want a refusal", s, n)
		}
	}
}

// parseAll parses input that arrives in pieces of step bytes and returns the requests as lists of arguments.
func parseAll(input string, step int) (requests [][]string, rest string, err error) {
	var p Parser
	begin, have := 0, 0
	for {
		n, err := p.Parse([]byte(input[begin:have]))
		switch {
		case err != nil:
			return requests, input[begin:], err
		case n == 0 && have == len(input):
			return requests, input[begin:], nil
		case n == 0:
			have = min(have+step, len(input))
			continue
		}
		raw := input[begin : begin+n]
		args := []string{}
		if p.Inline {
			split, _ := SplitInline([]byte(strings.TrimRight(raw, "\r\n")))
			for _, a := range split {
				args = append(args, string(a))
			}
		}
		for _, s := range p.Args {
			args = append(args, raw[s.Off:s.Off+s.Len])
		}
		requests = append(requests, args)
		begin += n
		p.Reset()
	}
}

func TestParserSplitsAnywhere(t *testing.T) {
	input := "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n*-1\r\nPING\r\n\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\na\r\nb\n\r\n"
	want := [][]string{{"GET", "k"}, {}, {}, {"PING"}, {}, {"SET", "", "a\r\nb\n"}}
	for step := 1; step <= len(input); step++ {
		got, rest, err := parseAll(input, step)
		if err != nil || rest != "" || len(got) != len(want) {
			t.Fatalf("step %d: %q, rest %q, %v", step, got, rest, err)
		}
		for i := range want {
			if strings.Join(got[i], "|") != strings.Join(want[i], "|") || len(got[i]) != len(want[i]) {
				t.Errorf("step %d, request %d: %q, want %q", step, i, got[i], want[i])
			}
		}
	}
}

// Bytes that the server answers with a protocol error must be a protocol error here, too. Otherwise gateway and
// server disagree about where requests end.
func TestParserRefuses(t *testing.T) {
	for _, s := range []string{
		"*x\r\n", "*2147483648\r\n", "*9223372036854775807\r\n", "*1\r\nPING\r\n", "*1\r\n+3\r\nGET\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n",
		"*1\r\n$9223372036854775807\r\n", "*1\r\n$1099511627777\r\n", "*1\r\n$03\r\nGET\r\n", "*\r\n", "*1\r\n$\r\n", "*1\r\n\r\n",
		"*" + strings.Repeat("1", MaxLineBytes+1), "PING" + strings.Repeat("x", MaxLineBytes+1), "PI\x00NG\r\n",
	} {
		if got, _, err := parseAll(s, 1<<20); !errors.Is(err, ErrProtocol) {
			t.Errorf("%.40q: %q, %v; want ErrProtocol", s, got, err)
		}
	}
}

func TestParserReportsLongArguments(t *testing.T) {
	var p Parser
	head := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n"
	if n, err := p.Parse([]byte(head + "abc")); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if n, ok := p.Bulk(); !ok || n != 1000000 || p.Pos() != len(head) || len(p.Args) != 2 {
		t.Errorf("bulk %d %v at %d after %d arguments", n, ok, p.Pos(), len(p.Args))
	}
}

func TestSplitInline(t *testing.T) {
	for line, want := range map[string]string{
		``:                      ``,
		`  `:                    ``,
		`set a b`:               `set|a|b`,
		`  set  "a b"	'c d' `:   `set|a b|c d`,
		`"\x41\n\t\\\"" '\'\n'`: "A\n\t\\\"|'\\n",
		`ab"c d"`:               `abc d`,
		`"\xZZ" "\x4"`:          `xZZ|x4`,
		"a\x0bb":                "a\x0bb",
	} {
		args, ok := SplitInline([]byte(line))
		if got := string(bytes.Join(args, []byte("|"))); !ok || got != want {
			t.Errorf("%q: %q %v, want %q", line, got, ok, want)
		}
	}
	for _, line := range []string{`"`, `'`, `"a`, `'a`, `"a"b`, `'a'b`, `"\`, `a "b`} {
		if args, ok := SplitInline([]byte(line)); ok {
			t.Errorf("%q: %q, want a refusal", line, args)
		}
	}
}

// trickle is a Source that returns at most n bytes per read.
type trickle struct {
	data []byte
	n    int
}

func (s *trickle) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.n)], s.data)
	s.data = s.data[n:]
	return n, nil
}

func (s *trickle) ReadNext(_ []byte, size int) ([]byte, int, error) {
	buf := make([]byte, size)
	n, err := s.Read(buf)
	return buf, n, err
}

// nothing is a Flusher for a Reader that lends no bytes.
type nothing struct{}

func (nothing) Flush() error { return nil }

func (s *trickle) Release([]byte) {}

func TestReader(t *testing.T) {
	for step := 1; step < 40; step++ {
		r := NewReader(&trickle{[]byte("+OK\r\n$5\r\nhello\r\n:1\r\ntail"), step}, nothing{}, 16)
		line, err := r.Line()
		if err != nil || string(line) != "+OK\r\n" {
			t.Fatalf("step %d: %q %v", step, line, err)
		}
		if next, err := r.LineAt(len(line)); err != nil || string(next) != "$5\r\n" {
			t.Fatalf("step %d: %q %v", step, next, err)
		}
		r.Discard(5 + 4)
		body := make([]byte, 7)
		if err := r.ReadFull(body); err != nil || string(body) != "hello\r\n" {
			t.Fatalf("step %d: %q %v", step, body, err)
		}
		var got []byte
		err = r.CopyTo(8, func(b []byte) error { got = append(got, b...); return nil })
		if err != nil || string(got) != ":1\r\ntail" {
			t.Fatalf("step %d: %q %v", step, got, err)
		}
		if _, err := r.Line(); !errors.Is(err, io.EOF) {
			t.Fatalf("step %d: %v, want EOF", step, err)
		}
	}
}

func TestReaderTellsBrokenFromEnded(t *testing.T) {
	r := NewReader(&trickle{[]byte("+OK"), 100}, nothing{}, 16)
	if _, err := r.Line(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want io.ErrUnexpectedEOF", err)
	}
	r = NewReader(&trickle{[]byte("+" + strings.Repeat("x", 100)), 100}, nothing{}, 16)
	if _, err := r.Line(); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("%v, want ErrLineTooLong", err)
	}
}

func TestParseHead(t *testing.T) {
	for line, want := range map[string]Head{
		"+OK\r\n": {'+', 0}, "-ERR x\r\n": {'-', 0}, ":12\r\n": {':', 0}, "$12\r\n": {'$', 12}, "$-1\r\n": {'$', -1},
		"*3\r\n": {'*', 3}, "*-1\r\n": {'*', -1}, "%3\r\n": {'%', 6}, "~2\r\n": {'~', 2}, ">4\r\n": {'>', 4}, "|1\r\n": {'|', 2}, "_\r\n": {'_', 0},
	} {
		if h, err := ParseHead([]byte(line)); err != nil || h != want {
			t.Errorf("%q: %+v %v, want %+v", line, h, err, want)
		}
	}
	for _, line := range []string{"\r\n", "x\r\n", "$x\r\n", "*-2\r\n", "$99999999999999\r\n", "$\r\n"} {
		if h, err := ParseHead([]byte(line)); !errors.Is(err, ErrReply) {
			t.Errorf("%q: %+v %v, want ErrReply", line, h, err)
		}
	}
}

// Cut takes whole requests only, and finds the same arguments as Parser.
func TestCut(t *testing.T) {
	for _, args := range [][]string{
		{"PING"},
		{"GET", "k"},
		{"SET", "", strings.Repeat("x", 9)},
		{"SET", "k", strings.Repeat("x", 10)},
		{"SET", "k", strings.Repeat("x", 12345)},
		{"MSET", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"},
	} {
		request := AppendCommand(nil, args...)
		more := append(bytes.Clone(request), "*1\r\n$4\r\nPING\r\n"...)
		n, found := Cut(more, [][]byte{[]byte("kept")})
		if got := join(found); n != len(request) || got != "kept\x00"+strings.Join(args, "\x00") {
			t.Errorf("%.40q: cut %d of %d bytes: %.60q", request, n, len(request), got)
		}
		for i := range request {
			if n, found := Cut(request[:i], nil); n != 0 || len(found) != 0 {
				t.Errorf("%.40q: cut %d bytes out of its first %d", request, n, i)
			}
		}
	}
	for _, unusual := range []string{"", "PING\r\n", "*0\r\n", "*-1\r\n", "*1\r\n$-1\r\n", "*1\r\n:1\r\n", "*01\r\n$4\r\nPING\r\n", "*1\r\n$04\r\nPING\r\n", "*x\r\n"} {
		if n, _ := Cut([]byte(unusual), nil); n != 0 {
			t.Errorf("%q: cut %d bytes", unusual, n)
		}
	}
}

func join(args [][]byte) string { return string(bytes.Join(args, []byte{0})) }

func FuzzCut(f *testing.F) {
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
	f.Add("*1\r\n$0\r\n\r\n")
	f.Add("*1\rx$1\rxP\r\n*")
	f.Fuzz(func(t *testing.T, input string) {
		n, args := Cut([]byte(input), nil)
		if n == 0 {
			return
		}
		var p Parser
		want, err := p.Parse([]byte(input))
		if err != nil || want != n || p.Inline || len(p.Args) != len(args) {
			t.Fatalf("cut %d bytes and %q; parsed %d and %d arguments, %v", n, args, want, len(p.Args), err)
		}
		for i, s := range p.Args {
			if string(args[i]) != input[s.Off:s.Off+s.Len] {
				t.Fatalf("argument %d: cut %q, parsed %q", i, args[i], input[s.Off:s.Off+s.Len])
			}
		}
	})
}

// However the input is cut into pieces, the parser finds the same ends and arguments of requests, and a request
// written from these arguments parses to them.
func FuzzParser(f *testing.F) {
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 3)
	f.Add("SET a \"b c\"\r\n*0\r\n", 1)
	f.Add("*1\r\n$-5\r\n", 2)
	f.Add("*\x0000\r", 4)
	f.Fuzz(func(t *testing.T, input string, step int) {
		if step <= 0 || len(input) > 1<<16 {
			return
		}
		whole, restWhole, errWhole := parseAll(input, len(input)+1)
		cut, restCut, errCut := parseAll(input, step)
		if restWhole != restCut || !errors.Is(errCut, errWhole) || len(whole) != len(cut) {
			t.Fatalf("cut by %d: %q rest %q %v; whole: %q rest %q %v", step, cut, restCut, errCut, whole, restWhole, errWhole)
		}
		for _, args := range cut {
			if len(args) == 0 {
				continue
			}
			again, rest, err := parseAll(string(AppendCommand(nil, args...)), step)
			if err != nil || rest != "" || len(again) != 1 || strings.Join(again[0], "\x00") != strings.Join(args, "\x00") {
				t.Fatalf("%q written again: %q, rest %q, %v", args, again, rest, err)
			}
		}
	})
}

func TestIsWord(t *testing.T) {
	for arg, want := range map[string]bool{"get": true, "GeT": true, "get\x00x": true, "": false, "ge": false, "gett": false, "g\x00et": false} {
		if got := IsWord([]byte(arg), "get"); got != want {
			t.Errorf("%q: %v", arg, got)
		}
	}
}

func TestParseCount(t *testing.T) {
	for arg, want := range map[string]bool{"0": true, "2147483647": true, "2147483648": false, "-1": false, "x": false, "": false} {
		if _, ok := ParseCount([]byte(arg)); ok != want {
			t.Errorf("%q: %v", arg, ok)
		}
	}
}
