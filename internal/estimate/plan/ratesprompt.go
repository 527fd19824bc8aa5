package plan

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// RatesPrompt asks the user for rates, and reads the answers, one per line.
type RatesPrompt struct {
	Lines *bufio.Scanner
	Ask   func(string)
}

// Rates asks for the rates of the whole source, and says why. Without an answer p keeps its rates.
func (q *RatesPrompt) Rates(ctx context.Context, p *Options, why string) {
	otherwise := "one write and ten reads a day for each value"
	if p.Rates != (Rates{}) {
		otherwise = "the given rates"
	}
	q.Ask(fmt.Sprintf("%s: %s.\n", p.Source.Name, why))
	reads, ok := q.number(ctx, fmt.Sprintf("How many reads a second does the plan cover? (Enter: %s) ", otherwise))
	if !ok {
		return
	}
	if writes, ok := q.number(ctx, "And how many writes a second? "); ok {
		p.Rates = Rates{Reads: reads, Writes: writes}
	}
}

// number reads a number such as 20000 or 20k, and asks again if it gets something else.
func (q *RatesPrompt) number(ctx context.Context, text string) (n float64, ok bool) {
	for ctx.Err() == nil {
		if q.Ask(text); !q.Lines.Scan() {
			return 0, false
		}
		line := strings.ToLower(strings.NewReplacer(",", "", "_", "", " ", "").Replace(q.Lines.Text()))
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
		q.Ask("That is not a number. ")
	}
	return 0, false
}
