package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func html(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// everywhere returns a page with the text in every place.
func everywhere(s string) *Page {
	return &Page{
		Title: s, Subject: s, Lead: s, Footer: s, Tiles: []Tile{{s, s, s}},
		Sections: []Section{{
			Title: s, Words: []string{s}, Legend: []Key{{"now", s}}, List: []string{s}, Texts: []Text{{s, []string{s}}}, Intervals: &Intervals{Title: s, Unit: s, Rows: []Span{{Name: s, Label: s, Low: -1, High: 2, Margin: 1}}},
			Bars:     &Bars{Rows: []BarRow{{Name: s, Bars: []Bar{{Parts: []Part{{"now", 1, s}}, Label: s, Low: 0.5, High: 2}}}}},
			Scatters: []Scatter{{Title: s, Across: s, Up: s, Points: []Point{{Name: s, Tip: s, X: 1, Y: 2, Chosen: true}, {Name: s, Tip: s, X: 100, Y: 3, Front: true}}}},
			Lines:    []Lines{{Title: s, Across: s, Up: s, Log: true, Series: []Series{{"now", []At{{1, 2, s}, {2, 30, s}}}}, Areas: []Area{{"after", []At{{1, 2, s}}, []At{{1, 1, s}}}}, Moment: &Moment{1, s}}},
			Columns:  []Columns{{Title: s, Note: s, Bins: []Bin{{s, 1}}}},
			Table:    &Table{Header: []Column{{Name: s}, {Name: s, Text: true}}, Rows: []Row{{Cells: []string{s, s}, Mark: "●"}}},
		}},
	}
}

// Hostile names do not change the elements of the page, and do not make it load anything.
func TestHostileNames(t *testing.T) {
	tag := regexp.MustCompile(`<[a-z!/][^\s>]*`)
	want := tag.FindAllString(html(t, everywhere("name")), -1)
	for _, s := range []string{
		"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, `' onload='alert(1)`, "</style><script>", "{{.Secret}}", "<!--", "]]>", "&lt;b&gt;",
		"\x00\x1b[31m\u202e\u2066\u009b", "javascript:alert(1)", "https://example.com/x.png", "\xff\xfe",
	} {
		got := html(t, everywhere(s))
		if tags := tag.FindAllString(got, -1); !slices.Equal(tags, want) {
			t.Errorf("%q: other elements: %d, want %d", s, len(tags), len(want))
		}
		for _, bad := range []string{"src=", "href=", "url(", "@import", "onload='", "\u202e", "\u2066", "\x1b", "\u009b"} {
			body := got
			if bad == "src=" { // as text it is harmless
				body = strings.ReplaceAll(body, "&lt;img src=x", "")
			}
			if strings.Contains(body, bad) {
				t.Errorf("%q: %s is in the page", s, bad)
			}
		}
	}
}

// An SVG in the page is well-formed XML, even with a quote and an ampersand in names.
func TestPlotsAreWellFormed(t *testing.T) {
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?(<svg.*?</svg>.*?)?</svg>`).FindAllString(html(t, everywhere(`a"b&<c`)), -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
}

func TestScatter(t *testing.T) {
	s := Scatter{}
	if p := s.Drawn(); len(p.Points) > 0 || len(p.Front) > 0 {
		t.Errorf("%+v", p)
	}
	for i := range 13 {
		s.Points = append(s.Points, Point{Name: "zstd-3+dict", X: 10 + float64(i)/10, Y: 2, Front: i < 3, Chosen: i == 12})
	}
	s.Points = append(s.Points, Point{Name: "far", X: 5000, Y: 9, Front: true})
	p := s.Drawn()
	if len(p.Front) != 3 {
		t.Errorf("%d lines of the front, want 3", len(p.Front))
	}
	for i, d := range p.Points {
		if math.IsNaN(d.X+d.Y) || d.X < left || d.X > right || d.Y < top-1 || d.Y > bottom {
			t.Errorf("point %d is at %v, %v", i, d.X, d.Y)
		}
	}
	if p.Points[12].Label == "" || p.Points[13].Label == "" {
		t.Error("what was chosen has no label, or what stands alone")
	}
	if p.Points[13].X <= p.Points[0].X || p.Points[13].Y >= p.Points[0].Y {
		t.Errorf("more is not to the right and above: %+v %+v", p.Points[0], p.Points[13])
	}
	labels := 0
	for _, d := range p.Points {
		if d.Label != "" {
			labels++
		}
	}
	if labels > 8 {
		t.Errorf("%d labels on a heap of points", labels)
	}
}

// Bars share a scale, and the longest leaves space for its label.
func TestBars(t *testing.T) {
	b := Bars{Rows: []BarRow{
		{Bars: []Bar{{Parts: []Part{{Value: 100}}}, {Parts: []Part{{Value: 30}, {Value: 20}}, Low: 40, High: 60}}},
		{Bars: []Bar{{Parts: []Part{{Value: 1e-9}}}}},
		{Bars: []Bar{{}}},
	}}
	rows := b.Drawn()
	long, split, tiny := rows[0].Bars[0], rows[0].Bars[1], rows[1].Bars[0]
	if long.Parts[0].Width != barsWidth || split.Parts[1].X != round(0.3*barsWidth) || !split.Interval || tiny.Parts[0].Width <= 0 {
		t.Errorf("%+v", rows)
	}
	if none := (&Bars{Rows: []BarRow{{Bars: []Bar{{}}}}}).Drawn(); math.IsNaN(none[0].Bars[0].End) {
		t.Errorf("%+v", none)
	}
}

func TestColumns(t *testing.T) {
	c := Columns{}
	if c.Drawn() != nil || c.Ticks() != nil {
		t.Error("nothing is drawn")
	}
	for range 30 {
		c.Bins = append(c.Bins, Bin{"8 B", 2})
	}
	ticked := 0
	for _, b := range c.Drawn() {
		if b.Ticked {
			ticked++
		}
	}
	if ticked == 0 || ticked > 7 {
		t.Errorf("%d names for 30 columns", ticked)
	}
}

// Lines end at their points, and both kinds of axis point upwards.
func TestLines(t *testing.T) {
	points := []At{{X: 100, Y: 1}, {X: 400, Y: 1000}}
	for _, log := range []bool{false, true} {
		c := (&Lines{Log: log, Series: []Series{{"after", points}}}).Drawn()
		s := c.Series[0]
		if len(s.Lines) != 1 || s.Lines[0].X2 != s.Points[1].X || s.Lines[0].Y1 != s.Points[0].Y {
			t.Errorf("%+v", s)
		}
		if s.Points[0].X >= s.Points[1].X || s.Points[0].Y <= s.Points[1].Y || s.Points[1].Y < top || s.Points[0].Y > bottom {
			t.Errorf("points at %+v", s.Points)
		}
		if len(c.Up) < 3 || len(c.Across) < 3 {
			t.Errorf("ticks %v, %v", c.Across, c.Up)
		}
	}
	if c := (&Lines{}).Drawn(); len(c.Series) != 0 {
		t.Errorf("%+v", c)
	}
}

// An axis of dates has few of them, the moment's name is where there is space, and an area has the X values
// of its lines.
func TestDates(t *testing.T) {
	begin := time.Date(2026, 10, 1, 7, 0, 0, 0, time.UTC)
	for _, hours := range []float64{0.4, 5, 24, 100, 30 * 24, 90 * 24} {
		upper, lower := []At{{X: 0, Y: 3}, {X: hours, Y: 2}}, []At{{X: 0, Y: 1}, {X: hours, Y: 1}}
		c := (&Lines{Begin: begin, Series: []Series{{"now", upper}, {"after", lower}}, Areas: []Area{{"after", upper, lower}}, Moment: &Moment{0.9 * hours, "on"}}).Drawn()
		if n := len(c.Across); n < 2 || n > 6 {
			t.Errorf("%v hours: %v", hours, c.Across)
		}
		for _, tick := range c.Across {
			if tick.At < left || tick.At > right {
				t.Errorf("%v hours: %+v", hours, tick)
			}
		}
		if m := c.Moment; m.Anchor != "end" || m.X <= 80 || m.X >= right {
			t.Errorf("%+v", m)
		}
		if a := c.Areas[0]; len(strings.Fields(a.Points)) != 4 || !strings.HasPrefix(a.Points, "12,") || !strings.Contains(a.Points, " 97,") {
			t.Errorf("%+v", a)
		}
	}
}
