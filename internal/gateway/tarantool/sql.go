package tarantool

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// SQLMode selects the statements that may name spaces with rules. With other statements the server would compute on
// compressed bytes, and return wrong results without an error.
type SQLMode uint8

// Modes.
const (
	SQLRefuse     SQLMode = iota // none
	SQLProjection                // SELECT of columns, with conditions only on columns without rules
	SQLPass                      // all, at the user's risk
)

// checkSQL refuses a statement that may not go to the server. Prepared statements are checked when they are
// prepared.
func (g *Gateway) checkSQL(ctx context.Context, r *request) *refusal {
	if r.body.SQLText.Len == 0 || g.cfg.SQL == SQLPass || !g.catalog.readsSchema() {
		return nil
	}
	raw, ok := wire.Text(r.body.SQLText.Of(r.bytes))
	if !ok {
		return nil // the server refuses it
	}
	all := g.catalog.awaitSpaces(ctx)
	if all == nil {
		return &refusal{wire.ErrSystem, "sql", "cinch: the schema could not be read yet, so it is unknown whether the statement uses compressed fields: try again later"}
	}
	text := string(raw)
	for _, name := range all.guarded {
		if !schema.Mentions(text, name) {
			continue
		}
		if g.cfg.SQL == SQLProjection && all.projects(text, maxViews) {
			return nil
		}
		return unsupported("sql", fmt.Sprintf("SQL on space %s, some of whose fields are compressed: the server would compute on compressed bytes", name))
	}
	return nil
}

// maxViews limits the depth of views over views that viewProjects checks.
const maxViews = 8

// projects reports whether a statement only selects columns, and names after FROM neither a column with rules nor a
// view that does more than that. It returns false in case of doubt. views limits the depth of views over views.
func (all *spaces) projects(text string, views int) bool {
	list, rest, ok := strings.Cut(strings.ToLower(text), " from ")
	columns, isSelect := strings.CutPrefix(strings.TrimSpace(list), "select ")
	if !ok || !isSelect || strings.Contains(rest, "select") || strings.ContainsAny(text, ";'[") || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return false
	}
	for column := range strings.SplitSeq(columns, ",") {
		if !isColumn(strings.TrimSpace(column)) {
			return false
		}
	}
	unseen := func(name string) bool { return schema.Mentions(rest, name) }
	if computes(rest) || slices.ContainsFunc(all.missing, unseen) {
		return false
	}
	for _, s := range all.byID {
		if s.View && schema.Mentions(rest, s.Name) && !all.viewProjects(s, views) {
			return false
		}
		if !s.ruled {
			continue
		}
		for n := range s.fields {
			if s.fields[n].guarded && schema.Mentions(rest, s.FieldAt(n).Name) {
				return false
			}
		}
	}
	return true
}

// viewProjects reports whether a view returns columns unchanged and under their own names. views is as for projects.
func (all *spaces) viewProjects(v *space, views int) bool {
	head, code, ok := strings.Cut(strings.ToLower(v.SQL), " as ")
	return ok && views > 0 && !strings.Contains(head, "(") && all.projects(code, views-1)
}

// computes reports whether the text after FROM, in lower case, may compare or sort columns without naming them.
func computes(rest string) bool {
	for _, word := range []string{"natural", "group", "union", "except", "intersect", "values"} {
		if schema.Mentions(rest, word) {
			return true
		}
	}
	ordered := false
	for _, word := range sqlWords.FindAllString(rest, -1) {
		switch {
		case word == "order":
			ordered = true
		case word == "limit":
			ordered = false
		case ordered && word[0] >= '0' && word[0] <= '9':
			return true // may be the number of a column
		}
	}
	return false
}

// sqlWords matches the words of a statement in lower case, and names in quotes.
var sqlWords = regexp.MustCompile(`"[^"]*"|[0-9a-z_\x{80}-\x{10ffff}]+`)

// isColumn reports whether an expression is * or a name alone.
func isColumn(text string) bool {
	if text == "*" {
		return true
	}
	text = strings.Trim(text, `"`)
	for _, c := range text {
		if c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return text != ""
}
