package tail

import (
	"fmt"
	"strings"
	"testing"
)

func TestBufferKeepsTheEnd(t *testing.T) {
	const size = 1000
	b, all := Buffer{MaxBytes: size}, Buffer{}
	for i := range size {
		fmt.Fprintf(&b, "%d,", i)
		fmt.Fprintf(&all, "%d,", i)
	}
	if s := b.String(); len(s) != size || !strings.HasSuffix(all.String(), s) {
		t.Errorf("%d bytes that end with %q, want %d", len(s), s[len(s)-20:], size)
	}
	if s := all.String(); !strings.HasPrefix(s, "0,1,2,") || !strings.HasSuffix(s, "998,999,") {
		t.Errorf("%d bytes are not all", len(s))
	}
}
