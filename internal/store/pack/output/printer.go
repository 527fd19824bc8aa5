package output

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

// Printer prints the events of a run for people or as JSON.
type Printer struct {
	verb   string // "packing"
	asJSON bool
	out    io.Writer
	bar    *terminal.Progress
	last   time.Time
	denied int

	missing []missing // dictionaries, in the order in which values named them
}

// missing is a dictionary that values name but that can't be found.
type missing struct {
	what   string // the error's text, which has the dictionary's number
	first  string // the first value that names it
	values int
}

// New returns a Printer; verb says what the run does. Progress is written to errs.
func New(verb string, asJSON bool, out, errs io.Writer) *Printer {
	return &Printer{verb: verb, asJSON: asJSON, out: out, bar: terminal.NewProgress(errs)}
}

// maxDenied limits how many values without permission are listed for people: with the wrong user that would
// be all values.
const maxDenied = 10

// Tell prints an event.
func (s *Printer) Tell(e pack.Event) {
	switch {
	case e.Problem != nil && s.asJSON:
		problem := e.Problem
		s.event(map[string]any{
			"event": "problem", "space": problem.Space, "key": string(problem.Value.Key), "field": string(problem.Value.Field),
			"entry": problem.Value.ID, "error": problem.Err.Error(),
		})
	case e.Problem != nil:
		s.problem(e.Problem)
	case e.Notice != "" && s.asJSON:
		s.event(map[string]any{"event": "notice", "text": e.Notice})
	case e.Notice != "":
		s.bar.Print(e.Notice)
	case s.asJSON:
		if now := time.Now(); now.Sub(s.last) >= time.Second {
			s.last = now
			s.event(progressJSON(e.Progress))
		}
	default:
		s.bar.Show(e.Progress.Done, s.line(e.Progress))
	}
}

// noteMissing counts the values of each missing dictionary. A line for each value could be one for every
// value in the store.
func (s *Printer) noteMissing(p *pack.Problem) {
	what := p.Err.Error()
	at := slices.IndexFunc(s.missing, func(m missing) bool { return m.what == what })
	if at < 0 {
		at = len(s.missing)
		s.missing = append(s.missing, missing{what: what, first: p.Space + " " + pack.Describe(p.Value)})
	}
	s.missing[at].values++
}

func (s *Printer) problem(p *pack.Problem) {
	if errors.Is(p.Err, envelope.ErrDictMissing) {
		s.noteMissing(p)
		return
	}
	if errors.Is(p.Err, pack.ErrDenied) {
		s.denied++
	}
	switch {
	case s.denied <= maxDenied || !errors.Is(p.Err, pack.ErrDenied):
		s.bar.Clear()
		fmt.Fprintf(s.out, "%s %s: %v\n", p.Space, pack.Describe(p.Value), p.Err)
	case s.denied == maxDenied+1:
		s.bar.Clear()
		fmt.Fprintln(s.out, "more of these are only counted; --json lists all")
	}
}

func (s *Printer) line(p *pack.Progress) string {
	text := fmt.Sprintf("%s  %d keys  %.0f/s  %d values", s.verb, p.Keys, p.PerSecond, p.Replaced)
	if p.Saved() != 0 {
		text += "  " + terminal.Size(p.Saved()) + " saved"
	}
	if p.Problems > 0 {
		text += fmt.Sprintf("  %d problems", p.Problems)
	}
	if p.Duty < 1 {
		text += fmt.Sprintf("  at %.0f%% of full speed", 100*p.Duty)
	}
	if p.Remaining > 0 {
		text += "  " + p.Remaining.Round(time.Second).String() + " left"
	}
	return text
}

// End clears the progress bar, and prints the missing dictionaries and, as JSON, the last event.
func (s *Printer) End(r *pack.Report, err error) {
	s.bar.Clear()
	for _, m := range s.missing {
		if m.values == 1 {
			fmt.Fprintf(s.out, "%s: 1 value names it: %s\n", m.what, m.first)
			continue
		}
		fmt.Fprintf(s.out, "%s: %d values name it, the first is %s; --json lists all\n", m.what, m.values, m.first)
	}
	s.missing = nil
	if r != nil && s.asJSON {
		s.event(map[string]any{"event": "end", "report": reportJSON(r), "error": errorText(err)})
	}
}
