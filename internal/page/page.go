// Package page writes reports as web pages: one file each, which loads nothing from
// anywhere, with plots drawn as inline SVG. It is readable on a laptop and on a phone, in
// light and dark, and printed. What it is given is text, never markup: names in a report
// may be hostile.
//
// Plots have places across in percent and heights in pixels, so letters keep their size
// whatever the width of the screen is.
package page

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"
	"unicode"
)

// Page is a report. Empty parts are left out.
type Page struct {
	Title    string
	Subject  string // what it is about
	Lead     string // the answer, in a sentence or two
	Tiles    []Tile
	Sections []Section
	Footer   string
}

// Tile is a figure that stands out.
type Tile struct{ Name, Value, Note string }

// Section is a heading with words, plots and a table below it, in this order.
type Section struct {
	Title    string
	Folded   bool     // only the title shows until a reader opens it; printed pages have all
	Words    []string // paragraphs
	Legend   []Key
	Bars     *Bars
	Across   *Across
	Scatters []Scatter
	Lines    []Lines
	Columns  []Columns
	Table    *Table
	Texts    []Text
	List     []string
}

// Text is lines that keep their spaces. Those that stand beside each other on wide screens are below each other on narrow ones.
type Text struct {
	Title string
	Lines []string
}

// Key says what a colour means.
type Key struct{ Class, Name string }

// Table is a table whose first column names the rows.
type Table struct {
	Header []Column
	Rows   []Row
}

// Column is the heading of a column. Text is aligned to the left, numbers to the right;
// minor columns are left out where not all fit.
type Column struct {
	Name  string
	Text  bool
	Minor bool
}

// Classes are the column's in HTML.
func (c Column) Classes() string {
	switch {
	case c.Text && c.Minor:
		return "text minor"
	case c.Text:
		return "text"
	case c.Minor:
		return "minor"
	}
	return ""
}

// Row is a row, with a mark before its name that tells it from others.
type Row struct {
	Cells []string
	Mark  string
	Total bool
}

//go:embed page.html
var source string

//go:embed page.css
var style string

var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) }, //nolint:gosec // our own file
	"clean": Clean,
}).Parse(source))

// Write writes the page as HTML. It is made in memory first, so a page is whole or, where
// w fails, an error.
func Write(w io.Writer, p *Page) error {
	var b bytes.Buffer
	if err := templates.Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Clean replaces what would not show, or would turn the direction of the text around it.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\uFFFD' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, s)
}
