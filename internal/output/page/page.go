// Package page writes reports as web pages: self-contained files, with plots as inline SVG, that load
// nothing. They are readable on a laptop and on a phone, in light and dark mode, and printed. All input is
// text, never markup: names in a report may be hostile.
//
// Plots use percent of the width for X and pixels for Y, so letters keep their size at any width of the
// screen.
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
	Subject  string // what the report covers
	Lead     string // the result, in a sentence or two
	Tiles    []Tile
	Sections []Section
	Footer   string
}

// Tile is a figure shown large, with its name and a note.
type Tile struct{ Name, Value, Note string }

// Section is a heading followed by paragraphs, plots and a table.
type Section struct {
	Title     string
	Folded    bool     // only the title shows until a reader opens it; printed pages show everything
	Words     []string // paragraphs
	Legend    []Key
	Bars      *Bars
	Intervals *Intervals
	Scatters  []Scatter
	Lines     []Lines
	Columns   []Columns
	Table     *Table
	Texts     []Text
	List      []string
}

// Text is preformatted lines. Texts beside each other on wide screens are below each other on narrow ones.
type Text struct {
	Title string
	Lines []string
}

// Key is the meaning of a colour.
type Key struct{ Class, Name string }

// Table is a table whose first column names the rows.
type Table struct {
	Header []Column
	Rows   []Row
}

// Column is the heading of a column. Text is aligned left, numbers right; minor columns are omitted if not
// all fit.
type Column struct {
	Name  string
	Text  bool
	Minor bool
}

// Classes returns the column's classes in HTML.
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

// Row is a row, optionally with a mark before its name.
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

// Write writes the page as HTML. It renders into memory first, so that w never gets a part of a page because
// of an error in rendering.
func Write(w io.Writer, p *Page) error {
	var b bytes.Buffer
	if err := templates.Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Clean replaces characters that would be invisible, or change the direction of the surrounding text.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\uFFFD' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, s)
}
