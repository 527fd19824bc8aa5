package clientformat

import (
	"bytes"
	"math"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// Expect accepts what OpenAny opens, with enough room for all of its content.
func TestExpect(t *testing.T) {
	e := codec.New(codec.Options{})
	for name, v := range vectors(t) {
		for _, limit := range []int{len(v.content), 1 << 20} {
			most, may := Expect([]Format{v.f}, v.stored[:min(len(v.stored), HeadBytes)], len(v.stored), limit)
			if !may || most < len(v.content) || most > limit {
				t.Errorf("%s: %d bytes of %d, %v", name, most, len(v.content), may)
			}
		}
	}
	long := bytes.Repeat([]byte("abcdefghij"), 10_000)
	for _, f := range []Format{GlideLZ4, PHPRedisLZ4, RedissonLZ4, RedissonZstd, Snappy, Zstd, GlideZstd} {
		stored, err := Append(nil, f, 0, long, e)
		if err != nil {
			t.Fatal(err)
		}
		if most, may := Expect([]Format{f}, stored[:HeadBytes], len(stored), 1<<20); !may || most != len(long) {
			t.Errorf("%v declares %d bytes, of %d", f, most, len(long))
		}
		if _, may := Expect([]Format{f}, stored[:HeadBytes], len(stored), len(long)-1); may {
			t.Errorf("%v: more is declared than there is room for", f)
		}
	}
}

// Expect does not accept values that applications store uncompressed, in any library's formats.
func TestExpectNothing(t *testing.T) {
	for _, stored := range []string{"", `{"id":1,"name":"a longer piece of JSON than the header has"}`, "some text, never compressed by anyone", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02"} {
		for family, formats := range families {
			if family == "symfony" { // three of four bytes may begin a deflate stream
				continue
			}
			if most, may := Expect(formats, []byte(stored), len(stored), 1<<20); may {
				t.Errorf("%.20q: %s takes it for %d bytes", stored, family, most)
			}
		}
	}
}

// The limit of a long value does not overflow an int.
func TestMaxContentLen(t *testing.T) {
	const most = 64 << 20
	for _, c := range []struct{ n, most, want int }{
		{0, most, 32 << 10},
		{1, 100, 100},
		{1023, most, 32 << 10},
		{1024, most, 32 << 10},
		{1025, most, 32 * 1025},
		{most/32 - 1, most, most - 32},
		{most / 32, most, most},
		{most/32 + 1, most, most},
		{math.MaxInt/32 + 1, most, most},
		{math.MaxInt/16 + 2, most, most},
		{math.MaxInt, most, most},
		{math.MaxInt, math.MaxInt, math.MaxInt},
	} {
		if got := MaxContentLen(c.n, c.most); got != c.want {
			t.Errorf("%d of at most %d: %d, want %d", c.n, c.most, got, c.want)
		}
	}
}
