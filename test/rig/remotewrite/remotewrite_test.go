package remotewrite

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
)

func TestParseText(t *testing.T) {
	got, err := parseText([]byte("# HELP x y\nx 1\ny{a=\"b\\\"}\",c=\"d\",} 2.5e3 1395066363000\n\nz{} NaN"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[2].Value == got[2].Value {
		t.Fatalf("%v", got)
	}
	want := []Series{{Labels: []Label{{"__name__", "x"}}, Value: 1}, {Labels: []Label{{"__name__", "y"}, {"a", `b"}`}, {"c", "d"}}, Value: 2500}}
	if !reflect.DeepEqual(got[:2], want) {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"", "# nothing", "x", `x{a="b" 1`, "x{a} 1", "x one"} {
		if got, err := parseText([]byte(bad)); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

// The expected bytes are protoc's output for timeseries { labels { name: "a" value: "bc" } samples { value: 1
// timestamp: 300 } }.
func TestAppendRequest(t *testing.T) {
	got := AppendRequest([]byte{0xff}, []Series{{Labels: []Label{{"a", "bc"}}, Value: 1, Timestamp: 300}})
	want, _ := hex.DecodeString("ff" + "0a17" + "0a07" + "0a0161" + "12026263" + "120c" + "09000000000000f03f" + "10ac02")
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func small() *Corpus {
	c := &Corpus{}
	for _, name := range []string{"a", "b", "c", "d"} {
		s := Series{Labels: []Label{{"__name__", name}, {"id", "x"}}, Value: 10}
		c.node, c.server, c.container = append(c.node, s), append(c.server, s), append(c.container, s)
		c.sets = append(c.sets, s.Labels)
	}
	return c
}

// A repeated scrape has the same series with other values, at another time.
func TestRescraped(t *testing.T) {
	c := small()
	first, all := c.Scraped(7, 3), c.Rescraped(7, 9, 3)
	if len(all) != 9 {
		t.Fatalf("%d requests", len(all))
	}
	for i, r := range all {
		if len(r) != len(first[i%3]) || bytes.Equal(r, first[i%3]) || i >= 3 && bytes.Equal(r, all[i-3]) {
			t.Errorf("request %d: %d bytes, %d at first", i, len(r), len(first[i%3]))
		}
	}
}

func TestRequestsAreWholeAndTheSameEachTime(t *testing.T) {
	c := small()
	for _, make := range []func(int, int) [][]byte{c.Scraped, c.Shuffled} {
		requests := make(7, 5)
		if len(requests) != 5 || !reflect.DeepEqual(requests, make(7, 5)) {
			t.Fatalf("%d requests, or others at the second time", len(requests))
		}
		for _, r := range requests {
			n := 0
			for rest := r; len(rest) > 0; n++ {
				if rest[0] != 1<<3|2 || int(rest[1]) >= 0xff {
					t.Fatalf("%x", rest)
				}
				size, at := int(rest[1]&0x7f), 2
				if rest[1] >= 0x80 {
					size, at = size|int(rest[2])<<7, 3
				}
				rest = rest[at+size:]
			}
			if n != 7 {
				t.Errorf("%d series", n)
			}
		}
	}
}
