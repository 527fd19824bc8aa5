package redis

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// Whatever a library's source says, reading it ends with a dictionary of the asked number or an error.
func FuzzLibrary(f *testing.F) {
	x := testDict(f, "fuzz")
	f.Add(x.Number(), libraryCode("cinch_dict_0", x))
	f.Add(x.Number(), withText(libraryCode("cinch_dict_0", x), "KLUv"))
	f.Add(uint32(1), "#!lua name=cinch_dict_00000001\nreturn 'AAAA'")
	f.Add(uint32(1), "\n-- zstd 524288 \n\n-- zstd 16 KLUv/SAQ\n")
	f.Fuzz(func(t *testing.T, number uint32, code string) {
		d, err := parseLibrary(number, code)
		if err == nil && (d.Number() != number || len(d.Content()) > codec.MaxDictLen) {
			t.Errorf("%d bytes with the number %08x", len(d.Content()), d.Number())
		}
	})
}
