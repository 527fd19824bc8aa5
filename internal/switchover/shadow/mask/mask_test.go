package mask

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// Different values of one kind and length stay different, and nothing of them is left.
func TestBytesStayApart(t *testing.T) {
	k := New()
	for _, length := range []int{0, 1, 2, 3, 100} {
		seen := map[string]bool{}
		for i := range 256 {
			value := bytes.Repeat([]byte{byte(i)}, length)
			got := string(k.Bytes([]byte("x"), value))
			if len(got) != 1+length || got != string(k.Bytes([]byte("x"), value)) {
				t.Fatalf("%d bytes become %q", length, got)
			}
			seen[got] = true
		}
		if length > 0 && len(seen) != 256 {
			t.Errorf("%d values of %d bytes are left", len(seen), length)
		}
	}
}

// Each character of a text is replaced by one of as many bytes, and no two by the same.
func TestCharactersArePermuted(t *testing.T) {
	k := New()
	seen := map[rune]rune{}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || r > 0x11000 && r%97 != 0 || r > 0x1000 && r < 0xd700 && r%31 != 0 {
			continue
		}
		got := k.Text(nil, utf8.AppendRune(nil, r))
		made, n := utf8.DecodeRune(got)
		if n != len(got) || n != utf8.RuneLen(r) || made == utf8.RuneError && n == 1 {
			t.Fatalf("%q becomes %q", r, got)
		}
		if before, ok := seen[made]; ok {
			t.Fatalf("%q and %q become %q", before, r, made)
		}
		seen[made] = r
		if r < ' ' && made != r {
			t.Errorf("%q becomes %q", r, made)
		}
	}
}

func TestText(t *testing.T) {
	k := New()
	for _, text := range []string{"", "a", "ab", "someone@example.org", "Grüße aus 東京 🎉\n", strings.Repeat("long ", 1000), "\xff\xfe not a text", "\x00"} {
		got := k.Text(nil, []byte(text))
		if len(got) != len(text) || utf8.Valid(got) != utf8.ValidString(text) || !bytes.Equal(got, k.Text(nil, []byte(text))) {
			t.Errorf("%q becomes %q", text, got)
		}
		if len(text) > 2 && string(got) == text || utf8.RuneCount(got) != utf8.RuneCountInString(text) && utf8.ValidString(text) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if bytes.Equal(k.Text(nil, []byte("someone")), New().Text(nil, []byte("someone"))) {
		t.Error("two keys do the same")
	}
}

// Numbers that servers treat as equal stay equal, whatever their type.
func TestNumbers(t *testing.T) {
	k := New()
	seen := map[int64]int64{}
	for _, v := range []int64{0, 1, -1, 5, 85_000, math.MaxInt32, math.MinInt32, math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64} {
		got := k.Integer(v)
		if small(got) != small(v) {
			t.Errorf("%d becomes %d", v, got)
		}
		if before, ok := seen[got]; ok {
			t.Errorf("%d and %d become %d", before, v, got)
		}
		seen[got] = v
		if small(v) && k.Float(float64(v)) != float64(got) {
			t.Errorf("%d becomes %d, as a float %v", v, got, k.Float(float64(v)))
		}
	}
	for _, v := range []float64{0.5, -0.25, 3.14, 1e-300, 1e300, 12.5, 1 << 40} {
		got := k.Float(v)
		if got == v || whole(got) || math.Signbit(got) != math.Signbit(v) || got > 2*v && v > 0 {
			t.Errorf("%v becomes %v", v, got)
		}
	}
	if !math.IsNaN(k.Float(math.NaN())) || !math.IsInf(k.Float(math.Inf(1)), 1) {
		t.Error("NaN or infinity was changed")
	}
	if got := k.Bits(1700000000000, 40); got>>40 != 1700000000000>>40 {
		t.Errorf("the upper bits become %d", got>>40)
	}
}

// Long values take little memory, and everything after a difference differs.
func TestLongValues(t *testing.T) {
	k := New()
	value := []byte(strings.Repeat("zażółć gęślą jaźń ", 20_000))
	one := k.Text(nil, value)
	value[0] = 'y'
	other := k.Text(nil, value)
	if len(one) != len(value) || !utf8.Valid(one) || bytes.Equal(one[len(one)-40:], other[len(other)-40:]) {
		t.Errorf("%d bytes become %d: %q, %q", len(value), len(one), one[len(one)-40:], other[len(other)-40:])
	}
}
