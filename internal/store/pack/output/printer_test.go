package output

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

// With the wrong user every value of a store is denied. Not all of those are listed; other problems are.
func TestDeniedAreCounted(t *testing.T) {
	var out bytes.Buffer
	p := New("packing", false, &out, &out)
	show := func(n int, err error) {
		for i := range n {
			p.Tell(pack.Event{Problem: &pack.Problem{Space: "db", Value: &store.Value{Key: fmt.Append(nil, i)}, Err: err}})
		}
	}
	show(1000, fmt.Errorf("not compressed: %w", pack.ErrDenied))
	show(50, errors.New("damaged"))
	if denied, damaged := strings.Count(out.String(), "no right"), strings.Count(out.String(), "damaged"); denied != maxDenied || damaged != 50 {
		t.Errorf("%d lines of denied, %d of damaged values", denied, damaged)
	}
	if !strings.Contains(out.String(), "--json lists all") {
		t.Errorf("%s", out.String())
	}
}

// A missing dictionary that one value names takes one line.
func TestMissingDictionaryOfOneValue(t *testing.T) {
	var out bytes.Buffer
	p := New("packing", false, &out, &out)
	p.Tell(pack.Event{Problem: &pack.Problem{Space: "db", Value: &store.Value{Key: []byte("key")}, Err: fmt.Errorf("%w: %08x", envelope.ErrDictMissing, 1)}})
	p.End(nil, nil)
	if !strings.Contains(out.String(), `00000001: 1 value names it: db key "key"`) {
		t.Errorf("%s", out.String())
	}
}

// A missing dictionary takes one line with a count, however many values name it.
func TestMissingDictionariesAreCounted(t *testing.T) {
	var out bytes.Buffer
	p := New("packing", false, &out, &out)
	for i := range 1000 {
		err := fmt.Errorf("%w: %08x", envelope.ErrDictMissing, i%2+1)
		p.Tell(pack.Event{Problem: &pack.Problem{Space: "db", Value: &store.Value{Key: fmt.Append(nil, "key", i)}, Err: err}})
	}
	p.End(nil, nil)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "00000001: 500 values name it, the first is db key \"key0\"") || !strings.Contains(lines[1], "00000002: 500") {
		t.Errorf("%s", out.String())
	}
}

// The report has the CPU time of training dictionaries, for people only if there was any.
func TestTrainingCPU(t *testing.T) {
	for cpu, want := range map[time.Duration]string{0: "", 1234 * time.Millisecond: "1.23s"} {
		var text, asJSON bytes.Buffer
		r := &pack.Report{TrainingCPU: cpu}
		if err := New("packing", false, &text, &text).Table(r, "packed"); err != nil {
			t.Fatal(err)
		}
		New("packing", true, &asJSON, &asJSON).End(r, nil)
		if has := strings.Contains(text.String(), "CPU of training dictionaries"); has != (cpu > 0) || !strings.Contains(text.String(), want) {
			t.Errorf("%v: %s", cpu, &text)
		}
		if !strings.Contains(asJSON.String(), fmt.Sprintf(`"training_cpu_seconds":%g`, cpu.Seconds())) {
			t.Errorf("%v: %s", cpu, &asJSON)
		}
	}
}
