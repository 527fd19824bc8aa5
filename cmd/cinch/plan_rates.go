package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/plan"
	"github.com/cinch-layer/cinch/internal/ui"
)

// askRates asks who sits at the terminal for rates that what the server has counted does not
// tell. Without a terminal the report says which flags do.
func (o *planOptions) askRates(ctx context.Context, c *plan.Collector, p *plan.Options) {
	warning := p.WeighRates(c)
	if p.Source.Doubt != "" && p.Rates == (plan.Rates{}) {
		warning = p.Source.Doubt
	}
	if warning == "" || o.asJSON || !ui.IsTerminal(o.in) || !ui.IsTerminal(o.errs) {
		return
	}
	o.clear()
	asked := time.Now()
	answers := question{lines: bufio.NewScanner(o.in), ask: func(s string) { fmt.Fprint(o.errs, s) }}
	answers.rates(ctx, p, warning)
	p.MeasureDeadline = p.MeasureDeadline.Add(time.Since(asked))
}

// question puts a question for rates, and takes the answer.
type question struct {
	lines *bufio.Scanner
	ask   func(string)
}

func (q *question) rates(ctx context.Context, p *plan.Options, why string) {
	otherwise := "one write and ten reads a day for each value"
	if p.Rates != (plan.Rates{}) {
		otherwise = "what was given"
	}
	q.ask(fmt.Sprintf("%s: %s.\n", p.Source.Name, why))
	reads, ok := q.number(ctx, fmt.Sprintf("How many reads a second does it serve? (Enter: %s) ", otherwise))
	if !ok {
		return
	}
	if writes, ok := q.number(ctx, "And how many writes a second? "); ok {
		p.Rates = plan.Rates{Reads: reads, Writes: writes}
	}
}

// number reads one as people write them, 20000 or 20k, and asks again for what is none.
func (q *question) number(ctx context.Context, text string) (n float64, ok bool) {
	for ctx.Err() == nil {
		if q.ask(text); !q.lines.Scan() {
			return 0, false
		}
		line := strings.ToLower(strings.NewReplacer(",", "", "_", "", " ", "").Replace(q.lines.Text()))
		if line == "" {
			return 0, false
		}
		factor := 1.0
		for suffix, f := range map[string]float64{"k": 1e3, "m": 1e6} {
			if short, found := strings.CutSuffix(line, suffix); found {
				line, factor = short, f
			}
		}
		if n, err := strconv.ParseFloat(line, 64); err == nil && n >= 0 && n*factor < 1e12 {
			return n * factor, true
		}
		q.ask("That is no number. ")
	}
	return 0, false
}
