package main

import (
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	if o, err := parseOptions([]string{"--scrapes", "3"}); err != nil || o.scrapes != 3 || o.series != 2000 {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{"--scrapes 1": "2", "--series 0": "at least 1", "x": `"x" is not a flag`} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// A receiver reports a missing, duplicate or changed sample.
func TestComplete(t *testing.T) {
	e := &exporter{series: 2, most: 2}
	whole := func() *receiver {
		r := &receiver{samples: map[int][]sample{}}
		for i := range 2 {
			for n := range 2 {
				r.samples[i] = append(r.samples[i], sample{uint64(n), value(i, n+1)})
			}
		}
		return r
	}
	if err := whole().complete(e); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*receiver){
		"one less": func(r *receiver) { r.samples[1] = r.samples[1][:1] },
		"twice":    func(r *receiver) { r.samples[0][1] = r.samples[0][0] },
		"another":  func(r *receiver) { r.samples[1][1].value++ },
	} {
		r := whole()
		change(r)
		if r.complete(e) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}
