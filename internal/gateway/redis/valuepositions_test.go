package redis

import (
	"bytes"
	"testing"
)

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
