package shadow

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A frequent operation is judged by itself, however many names were seen once before it.
func TestOperationBehindManyNames(t *testing.T) {
	r := New(Config{})
	r.phase = Testing
	for i := range 60 {
		b := newBatch(time.Time{})
		for n := range maxNames {
			b.add(&Operation{Kind: Read, Name: fmt.Sprintf("once %d %d", i, n)})
		}
		for n := range 400 {
			took := time.Duration(1000+n%7) * time.Microsecond
			b.add(&Operation{Kind: Read, Name: "hot", answers: [targets]Answer{{Took: took}, {Took: took + took*time.Duration(80+7*(i*13%11))/100}}})
			b.add(&Operation{Kind: Read, Name: "warm", answers: [targets]Answer{{Took: took}, {Took: took}}})
		}
		r.observe(b)
	}
	got := r.Report()
	if got.Outcome != "FAIL" || len(got.Slower) != 1 || got.Slower[0] != "hot" {
		t.Errorf("%s, slower are %v", got.Outcome, got.Slower)
	}
	var named int64
	for _, n := range got.Names {
		named += n.Count
	}
	if all := int64(60 * (maxNames + 800)); named+got.Unnamed != all {
		t.Errorf("%d are in names and %d in none, of %d", named, got.Unnamed, all)
	}
	var text bytes.Buffer
	if err := got.Text(&text); err != nil || !strings.Contains(text.String(), fmt.Sprintf("%d operations were judged only with all reads or writes", got.Unnamed)) {
		t.Errorf("%v: %s", err, &text)
	}
}
