package redis

import (
	"bytes"
	"testing"
)

func TestLocateValues(t *testing.T) {
	table := newTable()
	for request, want := range map[string]int{
		"set k v":                            2,
		"setex k 1 v":                        3,
		"mset a 1 b 2":                       2,
		"mset a 1 b":                         -1,
		"hset h f v f v":                     3,
		"hset h f v f":                       -1,
		"hsetnx h f v":                       3,
		"xadd s * f v":                       4,
		"xadd s 1-1 f v f v":                 4,
		"xadd s nomkstream maxlen ~ 5 * f v": 8,
		"xadd s MAXLEN = 5 LIMIT 3 1-* f v":  9,
		"xadd s minid 7 * f v":               6,
		"xadd s * f":                         -1,
		"xadd s maxlen 5 limit":              -1,
		"xadd s nomkstream nomkstream":       -1,

		"xadd s keepref idmp p i maxlen ~ 5 limit 3 * f v": 13,
		"xadd s acked idmpauto p * f v":                    7,
		"xadd s idmp p":                                    -1,
		"xadd s future 1 * f v":                            -3,
		"hsetex h fields 1 f v":                            5,
		"hsetex h fnx ex 5 fields 2 f v f v":               8,
		"hsetex h fields 1 f v keepttl":                    5,
		"hsetex h fields 2 f v":                            -1,
		"hsetex h fields 99999999999 f v":                  -1,
		"hsetex h future fields 1 f v":                     -3,
		"msetex 1 k v":                                     3,
		"msetex 2 k v k v nx ex 5":                         3,
		"msetex 2 k v k":                                   -1,
		"msetex 0 k v":                                     -1,
		"msetex 1 k v future":                              -3,
	} {
		args := fields(request)
		at, is := table.lookup(args[0]).args.positions(args, len(args))
		got := at.first
		if is != located {
			got = -int(is)
		}
		if got != want {
			t.Errorf("%s: first value at %d, want %d", request, got, want)
		}
	}
}

// Values are arguments behind the key, whatever the arguments are, and the positions found while arguments
// arrive one by one are those of the whole request.
func FuzzValuePositions(f *testing.F) {
	for _, line := range []string{
		"xadd s keepref idmp p i maxlen ~ 5 limit 3 * f v", "xadd s idmpauto p 1-1 f v g w", "hsetex h ex 5 fields 2 f v g w keepttl",
		"msetex 2 a 1 b 2 nx px 5", "mset a 1 b 2", "set k v ifeq x", "hset h f v", "hsetex h fields -1 f v", "msetex 99999999999999999999 a b",
	} {
		f.Add([]byte(line))
	}
	table := newTable()
	f.Fuzz(func(t *testing.T, line []byte) {
		args := bytes.Split(line, []byte(" "))
		row := table.lookup(args[0])
		if row.strategy != values || row.args.kind == noValues || !row.accepts(len(args)) {
			return
		}
		want, is := row.args.positions(args, len(args))
		if is == needMore {
			t.Fatalf("%s: cut off with all arguments there", line)
		}
		if is == located && (want.first < 2 || want.first >= len(args) || want.end > len(args) || want.step < 1) {
			t.Fatalf("%s: values at %+v of %d arguments", line, want, len(args))
		}
		for n := 1; n <= len(args); n++ {
			got, when := row.args.positions(args[:n], len(args))
			if when == needMore {
				continue
			}
			if late := is == unknownOptions && row.name == "msetex"; !late && (when != is || is == located && got != want) {
				t.Fatalf("%s: %+v (%d) after %d arguments, %+v (%d) after all", line, got, when, n, want, is)
			}
			break
		}
	})
}
