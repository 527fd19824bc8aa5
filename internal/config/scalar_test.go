package config

import (
	"math"
	"testing"
)

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "1": 1, "100": 100, "64B": 64, "256KB": 256000, "1kB": 1000, "32MiB": 32 << 20, "1 GiB": 1 << 30,
		"2TB": 2e12, "9223372036854775807": math.MaxInt64,
	} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q: %d, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5MiB", "MiB", "1mib", "1K", "1 M", "0x10", "9223372036854775808", "8388608TiB", "1_000"} {
		b := Bytes(7)
		if err := b.UnmarshalText([]byte(text)); err == nil || b != 7 {
			t.Errorf("%q: %d, %v", text, b, err)
		}
	}
}

func FuzzBytes(f *testing.F) {
	for _, s := range []string{"0", "32MiB", "1000KB", "9223372036854775807", "1 GiB", "007"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b, again Bytes
		if b.UnmarshalText([]byte(s)) != nil {
			return
		}
		if b < 0 {
			t.Fatalf("%q is %d", s, b)
		}
		if err := again.UnmarshalText([]byte(b.String())); err != nil || again != b {
			t.Errorf("%q is %d, prints %s, is then %d, %v", s, b, b, again, err)
		}
	})
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]Percent{"10%": 10, "0%": 0, "12.5 %": 12.5, "99.9%": 99.9} {
		var p Percent
		if err := p.UnmarshalText([]byte(text)); err != nil || p != want {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "10", "0.1", "%", "100%", "-1%", "NaN%", "x%"} {
		var p Percent
		if err := p.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(small))
	f.Add([]byte("a: &x [*x]"))
	f.Add([]byte("gateways: &x [{rules: *x}]\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", text, nil)
		if err != nil {
			return
		}
		shown, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("f", shown, nil); err != nil {
			t.Errorf("what it prints is invalid: %v\n%s", err, shown)
		}
	})
}

func TestRatio(t *testing.T) {
	for text, want := range map[string]Ratio{"0": 0, "1": 1, "0.01": 0.01, "1%": 0.01, "100%": 1, " 2.5 % ": 0.025} {
		var r Ratio
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "-1", "1.1", "101%", "NaN", "half"} {
		var r Ratio
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
}
