package shadow

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// A mirror that is over waits for no more traffic, so the first line says why it ended.
func TestMeaningWithoutAVerdict(t *testing.T) {
	needs := []MetricState{{Judged: true, Needed: 12, Batches: 2}}
	for want, r := range map[string]Report{
		"not enough traffic for a verdict yet":                                                               {},
		"about 10s more of such traffic is needed for a verdict":                                             {Metrics: needs, Batch: time.Second},
		"the mirror ended before a verdict: SIGUSR1":                                                         {Ended: "SIGUSR1"},
		"the mirror ended before a verdict: SIGUSR1; about 10s more of such traffic is needed for a verdict": {Ended: "SIGUSR1", Metrics: needs, Batch: time.Second},
	} {
		if r.Outcome = "INCONCLUSIVE"; r.meaning() != want {
			t.Errorf("%q, not %q", r.meaning(), want)
		}
	}
}

// The first line says how many answers the verdict rests on, never more than there are, and warns if they are
// few.
func TestTheFirstLineSaysTheShare(t *testing.T) {
	for want, c := range map[string]Compared{
		"and its answers are equal\n":                                               {},
		"; 100 % of 10 answers were compared\n":                                     {Equal: 10},
		"; 99.9 % of 100000 answers were compared\n":                                {Equal: 99_999, Timed: 1},
		"; 75 % of 12 answers were compared\n":                                      {Equal: 9, Timed: 1, Unordered: 1, Expired: 1},
		"; WARNING: only 20 % of 10 answers were compared, for the reasons below\n": {Equal: 2, Timed: 8, UnderWay: 5},
	} {
		c.EqualData = c.Equal
		r := Report{Outcome: "PASS", Compared: c, Share: c.share(), SelfTested: true}
		var text, page bytes.Buffer
		if err := errors.Join(r.Text(&text), r.HTML(&page)); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(text.String(), "\n")
		if !strings.HasSuffix(first+"\n", want) {
			t.Errorf("%q, not %q", first, want)
		}
		if lead := strings.TrimPrefix(first, "PASS: t"); !strings.Contains(page.String(), lead) {
			t.Errorf("%q is not on the page", lead)
		}
	}
}

// Logins of clients that connect for one request each do not lower the share of compared answers.
func TestSetupIsNoAnswer(t *testing.T) {
	c := newCompare(willing{})
	for range 3 {
		c.add(&Operation{Kind: State, Check: Success}) // a login
		c.add(&Operation{Kind: State})                 // BEGIN
		c.add(&Operation{Kind: Read})
	}
	if got, _ := c.totals(); got.answers() != 3 || got.share() != 1 || got.Timed != 3 || got.Equal != 6 {
		t.Errorf("%.2f of %d answers, %+v", got.share(), got.answers(), got)
	}
}

// The answers to COMMIT are always alike: a run with nothing else has compared nothing.
func TestCommitIsNoAnswer(t *testing.T) {
	r := New(Config{Protocol: willing{}})
	defer r.stop()
	for range 100 {
		r.mirror.compare.add(&Operation{Kind: Write, answers: [targets]Answer{{Bare: true}, {Bare: true}}})
	}
	r.mu.Lock()
	settle(t, r, 0)
	r.mu.Unlock()
	if got := r.Report(); got.Outcome != "INCONCLUSIVE" || got.Compared.EqualData != 0 || got.Compared.answers() != 0 {
		t.Errorf("%s %s %+v", got.Outcome, got.meaning(), got.Compared)
	}
}

// A run that has compared almost no answers does not claim that the targets answer alike.
func TestPassNeedsAnswers(t *testing.T) {
	for timed, want := range map[int]string{900: "PASS", 1100: "INCONCLUSIVE"} {
		r := New(Config{Protocol: willing{}})
		for i := range timed + 10 {
			op := &Operation{Kind: Read, Check: Success}
			if i < 10 {
				op.Check = Exact
			}
			r.mirror.compare.add(op)
		}
		r.mu.Lock()
		settle(t, r, 0)
		r.mu.Unlock()
		if got := r.Report(); got.Outcome != want || got.Compared.Different > 0 {
			t.Errorf("10 of %d: %s %s", timed+10, got.Outcome, got.meaning())
		}
		r.stop()
	}
}

// The report of a void run says what was asked, the answers of each server, and what to do.
func TestAVoidRunSaysWhatToDo(t *testing.T) {
	cfg := Config{Protocol: willing{}}
	cfg.Control.Network, cfg.Control.Address = "tcp", "a:1"
	cfg.Test.Network, cfg.Test.Address = "tcp", "b:2"
	r := New(cfg)
	defer r.stop()
	for _, answers := range [][3]Answer{ // production, control, test
		{{Digest: 1}, {Digest: 1}, {Digest: 2}},
		{{Digest: 1}, {Missing: true}, {Digest: 1}},
		{{Lost: true}, {Digest: 1}, {Error: "OOM"}},
		{{Digest: 3}, {Digest: 1}, {Digest: 2}},
	} {
		r.mirror.compare.add(&Operation{Kind: Read, Name: "GET user:*", number: 17, Production: answers[0], answers: [targets]Answer{answers[1], answers[2]}})
	}
	r.mu.Lock()
	r.voidWhatDiffers()
	r.mu.Unlock()
	var text bytes.Buffer
	if err := r.Report().Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"VOID: the run can't be judged; 100 % of 4 answers were compared\n  answers differ, the first to GET user:* (operation 17): control answered a value, test another value, production like control\n",
		"what to do: query control (tcp://a:1) and test (tcp://b:2) by hand for the data of GET user:*",
		"what to do: restore production's data on both targets before the next run",
		"control answered nothing, test a value, production like test\n",
		"control answered a value, test error OOM, production got a different request\n",
		"control answered a value, test another value, production like neither\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}
