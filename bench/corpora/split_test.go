package corpora

import (
	"fmt"
	"testing"
)

func TestSplitWithin(t *testing.T) {
	var records []Record
	for source := range 3 {
		for i := range 2*source + 1 { // 1, 3 and 5
			records = append(records, Record{fmt.Sprint("source", source), fmt.Appendf(nil, "value %d of %d", i, source)})
		}
	}
	records = append(records, records[3], Record{"source1", []byte("short")}) // duplicate, too short
	s := SplitWithin("test", records, 10, 20)
	if len(s.Learn) != 2+3 || len(s.Measure) != 1+2 || s.Sources != [2]int{2, 2} {
		t.Fatalf("%d and %d of %v", len(s.Learn), len(s.Measure), s.Sources)
	}
	learned := map[string]bool{}
	for _, v := range s.Learn {
		learned[string(v)] = true
	}
	for _, v := range s.Measure {
		if learned[string(v)] {
			t.Errorf("%s is on both sides", v)
		}
	}
}
