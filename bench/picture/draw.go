package main

import (
	"bytes"
	"fmt"
	"html"
)

// theme holds the colours for light or dark pages. The background is the page's.
type theme struct{ name, text, quiet, plain, ours string }

var themes = []theme{
	{"light", "#1f2328", "#59636e", "#afb8c1", "#0969da"},
	{"dark", "#f0f6fc", "#9198a1", "#656c76", "#4493f8"},
}

// The picture's measures in pixels. Labels are left of the bars, values right of them.
const (
	width     = 800
	barsAt    = 190
	longest   = 480 // of a bar
	barHeight = 20
	barStep   = 28
	titleStep = 34
	gap       = 22 // between two panels
	margin    = 12
)

// draw draws the panels below each other. Bars of a panel begin at zero and share a scale.
func draw(panels []panel, t theme) []byte {
	height := 2*margin - gap
	for _, p := range panels {
		height += titleStep + len(p.bars)*barStep + gap
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%s">`+"\n",
		width, height, html.EscapeString(inOneLine(panels)))
	b.WriteString(`<g font-family="-apple-system,BlinkMacSystemFont,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif" font-size="14">` + "\n")
	y := margin
	for _, p := range panels {
		y = drawPanel(&b, p, t, y)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

// drawPanel draws a panel at y and returns the y of the next one.
func drawPanel(b *bytes.Buffer, p panel, t theme, y int) int {
	fmt.Fprintf(b, `<text x="0" y="%d" font-weight="600" fill="%s">%s</text>`+"\n", y+15, t.text, html.EscapeString(p.title))
	y += titleStep
	most := 0.0
	for _, one := range p.bars {
		most = max(most, one.value)
	}
	for _, one := range p.bars {
		fill := t.plain
		if one.ours {
			fill = t.ours
		}
		long := one.value / most * longest
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`+"\n", barsAt-10, y+15, t.text, html.EscapeString(one.label))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n", barsAt, y, long, barHeight, fill)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s">%s %s</text>`+"\n", barsAt+long+8, y+15, t.quiet, figure(one.value), p.unit)
		y += barStep
	}
	return y + gap
}

// figure formats a number with about three significant digits, the precision of the results.
func figure(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%d,%03d", int(v)/1000, int(v)%1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.1f", v)
	}
}

// inOneLine returns the figures as text, for screen readers.
func inOneLine(panels []panel) string {
	text := ""
	for _, p := range panels {
		text += p.title + ": "
		for i, one := range p.bars {
			if i > 0 {
				text += ", "
			}
			text += fmt.Sprintf("%s %s %s", one.label, figure(one.value), p.unit)
		}
		text += ". "
	}
	return text
}
