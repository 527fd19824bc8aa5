package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// status returns the status of a gateway that has handled that many values of 1000 bytes, 250 compressed, in
// that many seconds.
func status(seconds float64, values uint64) *admin.Status {
	total := gateway.RuleTotal{Rule: "menus", Sealed: values, RawBytes: 1000 * values, StoredBytes: 250 * values, SealCPUSeconds: float64(values) / 1e5}
	return &admin.Status{StartedAt: start, UptimeSeconds: seconds, Gateways: []admin.Gateway{{
		Snapshot: gateway.Snapshot{
			Name: "redis", Protocol: "redis", Connections: gateway.Connections{Open: 12},
			Total:  gateway.Total{Values: values, RawBytes: total.RawBytes, StoredBytes: total.StoredBytes, SealCPUSeconds: total.SealCPUSeconds},
			Errors: map[string]uint64{"stalled": values / 100},
			Latency: gateway.LatencyTotal{Count: values, Buckets: []gateway.LatencyBucket{
				{UpToUs: 100, Count: values / 2}, {UpToUs: 1000, Count: values / 2},
			}},
		},
		Enabled: true, Rules: []admin.Rule{{RuleTotal: total, Setting: "zstd-3", Active: true}},
	}}}
}

func TestRates(t *testing.T) {
	before, now := Snapshot{Page: "a", Status: status(10, 1000)}, Snapshot{Page: "a", Status: status(12, 5000)}
	g := Gateways(before, now)[0]
	if g.Before != 2e6 || g.After != 5e5 || g.Exchanges != 2000 || g.CPU != 0.02 || g.Errors != 20 || g.Rules[0].Values != 2000 || *g.P99 != 1000 {
		t.Errorf("%+v", g)
	}
	if g := Gateways(Snapshot{}, now)[0]; g.Exchanges != 5000/12. {
		t.Errorf("without an earlier look: %v exchanges a second", g.Exchanges)
	}
	restarted := status(4, 100)
	restarted.StartedAt = start.Add(time.Hour)
	if g := Gateways(before, Snapshot{Status: restarted})[0]; g.Exchanges != 25 {
		t.Errorf("after a restart: %v exchanges a second", g.Exchanges)
	}
	if g := Gateways(now, now)[0]; g.Exchanges != 0 || g.P99 != nil {
		t.Errorf("without time between: %v, p99 %v", g.Exchanges, g.P99)
	}
	if g := Gateways(before, Snapshot{Page: "a", Err: errors.New("gone")}); len(g) != 1 || g[0].Trouble != "gone" || g[0].Page != "a" {
		t.Errorf("%+v", g)
	}
}

// The line of totals has the sum of the pages' money, even if negative; without any it has none.
func TestMoney(t *testing.T) {
	s := screen{}
	s.arrange(gateways())
	if text := s.totals(); strings.Contains(text, "$") || Sum(s.gateways).Money != nil {
		t.Errorf("money from nowhere: %s", text)
	}
	for _, c := range []struct {
		months []float64
		want   string
	}{
		{[]float64{12.5, 3.25}, ", net $15.75 a month"},
		{[]float64{12.5, -20}, ", net -$7.50 a month"},
		{[]float64{-0.001, 0}, ", net -$0.001 a month"},
		{[]float64{0, 0}, ", net $0 a month"},
		{[]float64{1200, 34.6}, ", net $1,235 a month"},
	} {
		for i, m := range c.months {
			s.gateways[i].Money = &admin.GatewayMoney{SoFar: 1, Month: m}
		}
		if text := s.totals(); !strings.Contains(text, c.want) {
			t.Errorf("no %q in %q", c.want, text)
		}
		if sum := Sum(s.gateways).Money; sum.SoFar != 2 {
			t.Errorf("%+v", sum)
		}
	}
	now := status(12, 5000)
	now.Gateways[0].Money = &admin.GatewayMoney{SoFar: 1, Month: 7}
	if g := Gateways(Snapshot{}, Snapshot{Status: now})[0]; g.Money == nil || g.Money.Month != 7 {
		t.Errorf("%+v", g.Money)
	}
}

// page returns its scripted answers in turn.
type page struct {
	name  string
	looks []any
}

func (p *page) Name() string { return p.name }

func (p *page) Status(context.Context) (admin.Status, error) {
	next := p.looks[0]
	p.looks = p.looks[1:]
	if s, ok := next.(*admin.Status); ok {
		return *s, nil
	}
	return admin.Status{}, next.(error)
}

// After a missed poll a page is compared with its previous status.
func TestMissedLook(t *testing.T) {
	w := NewWatch([]Page{&page{"a", []any{status(10, 1000), errors.New("slow"), status(20, 2000)}}})
	for i, want := range []float64{100, 0, 100} {
		list, first := w.Next(t.Context())
		if list[0].Exchanges != want || first != (i == 0) {
			t.Errorf("look %d: %+v, first %v", i, list[0], first)
		}
	}
}

func gateways() []Gateway {
	list := Gateways(Snapshot{Status: status(10, 1000)}, Snapshot{Page: "gateway-1.internal:9470", Status: status(12, 5000)})
	other := list[0]
	other.Name, other.Trouble = "mongo", "dial tcp 10.0.0.1:27017: \x1b[2Jconnection refused"
	third := list[0]
	third.Route = "\x1b]0;title\a → \u202eredis"
	third.Learning = []string{"r\x9b31m: 5 of 10 values for a dictionary"}
	third.ErrorsBy = []Errors{{"stalled\r\x1b[A", 1}}
	third.Rules = []Rule{{Name: "menus\x1b[2J", Setting: "zstd-3\x1b[8m"}}
	third.Effort = "budget\x07"
	third.Name, third.Before = "a-gateway-with-a-rather-long-name-of-its-own", 9e12
	return append(list, other, third, Gateway{Page: "gateway-2.internal:9470", Trouble: "timeout"})
}

// No line is wider, and no text longer, than the terminal; control characters from other processes don't
// reach it.
func TestScreenFits(t *testing.T) {
	for _, width := range []int{1, 20, 40, 80, 100, 132, 300} {
		for _, height := range []int{1, 5, 24, 60} {
			s := screen{width: width, height: height, every: time.Second, pages: 2}
			s.arrange(gateways())
			for range len(s.gateways) {
				text := s.text()
				lines := strings.Split(text, "\n")
				if len(lines) > height {
					t.Errorf("%dx%d: %d lines", width, height, len(lines))
				}
				for _, l := range lines {
					if n := utf8.RuneCountInString(l); n > width {
						t.Errorf("%dx%d: %d columns: %s", width, height, n, l)
					}
				}
				if strings.ContainsAny(text, "\x1b\x07\r\u009b\u202e\t") {
					t.Errorf("an escape sequence gets through: %q", text)
				}
				s.selected++
			}
		}
	}
}

// The selected gateway and its rules are visible with more gateways than lines.
func TestScreenFollows(t *testing.T) {
	var list []Gateway
	for i := range 50 {
		g := gateways()[1]
		g.Name = fmt.Sprintf("gateway-%02d", i)
		list = append(list, g)
	}
	s := &screen{every: time.Second, width: 100, height: 24}
	s.arrange(list)
	for i := range 50 {
		text := s.text()
		if name := fmt.Sprintf("> gateway-%02d", i); !strings.Contains(text, name) && !strings.Contains(text, "!"+name[1:]) {
			t.Fatalf("%s is not there:\n%s", name, text)
		}
		if !strings.Contains(text, fmt.Sprintf("\ngateway-%02d (", i)) || !strings.Contains(text, "menus") {
			t.Fatalf("its rules are not there:\n%s", text)
		}
		s.press("\x1b[B")
	}
}

func TestKeys(t *testing.T) {
	s := &screen{every: time.Second, width: 100, height: 40}
	s.arrange(gateways())
	if first := s.gateways[0].Name; first != "a-gateway-with-a-rather-long-name-of-its-own" {
		t.Fatalf("first by name: %s", first)
	}
	for _, key := range []string{"\x1b[B", "\x1bOB", "j", "k"} {
		s.press(key)
	}
	if s.gateways[s.selected].Name != "redis" {
		t.Fatalf("chosen: %s", s.gateways[s.selected].Name)
	}
	s.press("s")
	s.arrange(gateways())
	if s.gateways[s.selected].Name != "redis" || s.order != bySaving {
		t.Errorf("after sorting %s is chosen", s.gateways[s.selected].Name)
	}
	s.press("p")
	if !s.paused || !strings.Contains(s.text(), "paused") {
		t.Error("not paused")
	}
	s.gateways[s.selected].Effort = effortOf(&gateway.EffortTotal{CPUBudgetCores: 0.2, Cores: 0.19, Steps: []gateway.EffortShare{{Step: "rule", Share: 0.25}, {Step: "fast", Share: 0.75}, {Step: "raw"}}})
	if !strings.Contains(s.text(), "budget: 0.19 of 0.20 cores, values get rule 25 %, fast 75 %") {
		t.Errorf("no budget:\n%s", s.text())
	}
	if s.press("?"); !strings.Contains(s.text(), "sort by name, saving, CPU, clients") {
		t.Error("no help")
	}
	if s.press("\x1b[C") || s.press("\x1b") || !s.press("q") || !s.press("\x03") {
		t.Error("q and Ctrl-C quit, and nothing else")
	}
}

// Any text that a terminal sends at once is split into keys.
func TestNextKey(t *testing.T) {
	var keys []string
	for text := "j\x1b[B\x1bOAq\x1b[1;5C\x1b"; text != ""; {
		key := nextKey(text)
		keys, text = append(keys, key), text[len(key):]
	}
	if want := []string{"j", "\x1b[B", "\x1bOA", "q", "\x1b[1;5C", "\x1b"}; !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}

func FuzzNextKey(f *testing.F) {
	f.Add("\x1b[")
	f.Fuzz(func(t *testing.T, text string) {
		if text != "" && (nextKey(text) == "" || !strings.HasPrefix(text, nextKey(text))) {
			t.Errorf("%q: %q", text, nextKey(text))
		}
	})
}

// Each line is cleared before it is written, and the last one with all below it.
func TestFrame(t *testing.T) {
	if got, want := frame("a\nb"), "\x1b[H\x1b[Ka\r\n\x1b[K\x1b[Jb"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPrint(t *testing.T) {
	pages := []Page{&page{"a", []any{status(10, 1000), status(11, 2000), status(12, 4000)}}}
	var out strings.Builder
	if err := Print(t.Context(), &out, pages, Printing{Every: time.Millisecond, Count: 2, JSON: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last struct {
		Total    Total
		Gateways []Gateway
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 2 || last.Total.Exchanges != 2000 || last.Gateways[0].Rules[0].Name != "menus" {
		t.Errorf("%v\n%s", err, out.String())
	}
	nobody := []Page{&page{"a", []any{errors.New("refused")}}}
	if err := Print(t.Context(), &out, nobody, Printing{Every: time.Millisecond, Count: 1}); !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "a: refused") {
		t.Error(err)
	}
}
