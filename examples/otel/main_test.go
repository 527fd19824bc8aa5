package main

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestOptions(t *testing.T) {
	if o, err := parseOptions([]string{"--rounds", "3"}); err != nil || o.rounds != 3 || o.collector {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{"--rounds 1": "at least 2", "--pause -1s": "not negative", "x": `"x" is not a flag`} {
		if _, err := parseOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// The short form runs Go's senders; with CINCH_FULL=1 it runs every sender whose tools are installed. It
// checks how much a pair of gateways saves compared with the sender's own gzip. By HTTP the first request of
// each connection is forwarded unchanged, so many must follow.
func TestSenders(t *testing.T) {
	work := t.TempDir()
	all, missing, err := senders(work)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		t.Logf("left out: %v", m)
	}
	if !testenv.IsFull() {
		all = all[:2]
	}
	s := &setup{work: work, cinch: testenv.Cinch(t)}
	t.Cleanup(s.stop)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		r, err := s.compare(t.Context(), options{rounds: 8, pause: 10e6}, x)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if r.items != 8*(200+200+112)+112 && r.items != 8*(200+200+112) || r.gzip*2 > r.plain || r.pairs > r.gzip {
			t.Errorf("%+v", r)
		}
	}
}

// A receiver reports missing, duplicate and wrong values.
func TestReceiver(t *testing.T) {
	grows := func(series, round int64) int64 { return 10 * round }
	for values, want := range map[string]bool{"10 30 60": true, "10 30 60 60": true, "10 30 30 60": true, "10 60": false, "30": false, "10 30 10": false, "10 31": false} {
		r := newReceiver(3)
		var err error
		for _, v := range strings.Fields(values) {
			var n int64
			for _, c := range v {
				n = 10*n + int64(c-'0')
			}
			if err == nil {
				err = r.point(r.counters, 1, n, -1, grows)
			}
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", values, err)
		}
	}
	r := newReceiver(1)
	if r.complete() == nil {
		t.Error("nothing arrived, and nothing is missing")
	}
}
