package sql

import "strconv"

// Set is a column that a statement gives a nondeterministic value or default.
type Set struct {
	Table  string // without its schema
	Column string // "": the column with number Index
	Index  int    // from 0
}

// sets returns the Sets of a statement: in assignments, in VALUES and select lists of an INSERT, in defaults.
func (a analysis) sets() (out []Set) {
	for i, t := range a.tokens {
		rest := a.from(i + 1)
		switch {
		case t.is("insert") && rest.begins("into"):
			out = append(out, rest.from(1).insert()...)
		case t.is("update"):
			table, after := rest.table()
			if after = after.skipAlias(); after.begins("set") {
				out = append(out, after.from(1).assignments(table)...)
			}
		case i == 0 && t.is("create"):
			out = append(out, rest.create()...)
		case i == 0 && t.is("alter") && rest.begins("table"):
			out = append(out, rest.from(1).alter()...)
		}
	}
	return out
}

func (a analysis) from(i int) analysis {
	a.tokens = a.tokens[min(i, len(a.tokens)):]
	return a
}

func (a analysis) begins(words ...string) bool {
	for i, w := range words {
		if i >= len(a.tokens) || !a.tokens[i].is(w) {
			return false
		}
	}
	return true
}

// skip drops optional words at the beginning.
func (a analysis) skip(words ...string) analysis {
	for _, w := range words {
		if a.begins(w) {
			a = a.from(1)
		}
	}
	return a
}

// table parses a table name and drops its schema.
func (a analysis) table() (string, analysis) {
	a = a.skip("only")
	for len(a.tokens) > 1 && a.tokens[1].mark('.') {
		a = a.from(2)
	}
	if len(a.tokens) == 0 || a.tokens[0].kind != word && a.tokens[0].kind != quoted {
		return "", analysis{functions: a.functions}
	}
	return a.tokens[0].text, a.from(1)
}

func (a analysis) skipAlias() analysis {
	if a = a.skip("as"); len(a.tokens) > 0 && a.tokens[0].kind != mark && !a.begins("set") {
		return a.from(1)
	}
	return a
}

// parenthesis returns the content of the parentheses that a begins with, and what follows them.
func (a analysis) parenthesis() (within, after analysis) {
	depth := 0
	for i, t := range a.tokens {
		switch {
		case t.mark('('):
			depth++
		case t.mark(')'):
			if depth--; depth == 0 {
				within, after = a, a.from(i+1)
				within.tokens = a.tokens[1:i]
				return within, after
			}
		}
	}
	return analysis{functions: a.functions}, analysis{functions: a.functions}
}

// list splits at commas, up to one of the words in ends or the closing parenthesis.
func (a analysis) list(ends ...string) (items []analysis, after analysis) {
	depth, from := 0, 0
	item := func(to int) {
		one := a
		one.tokens = a.tokens[from:to]
		items = append(items, one)
		from = to + 1
	}
	for i, t := range a.tokens {
		switch {
		case t.mark('('):
			depth++
		case t.mark(')') && depth == 0:
			item(i)
			return items, a.from(i)
		case t.mark(')'):
			depth--
		case depth == 0 && t.mark(','):
			item(i)
		case depth == 0 && t.kind == word:
			for _, end := range ends {
				if t.text == end {
					item(i)
					return items, a.from(i)
				}
			}
		}
	}
	item(len(a.tokens))
	return items, a.from(len(a.tokens))
}

// insert examines what follows INSERT INTO.
func (a analysis) insert() (out []Set) {
	table, a := a.table()
	if a.begins("as") {
		a = a.from(2)
	}
	var columns []analysis
	if len(a.tokens) > 0 && a.tokens[0].mark('(') && !a.from(1).begins("select") {
		var within analysis
		within, a = a.parenthesis()
		columns, _ = within.list()
	}
	add := func(values []analysis) {
		for i, v := range values {
			if !v.nondeterministic() {
				continue
			}
			one := Set{Table: table, Index: i}
			if i < len(columns) && len(columns[i].tokens) > 0 {
				one.Column = columns[i].tokens[0].text
			}
			if len(columns) == 0 || one.Column != "" {
				out = append(out, one)
			}
		}
	}
	switch {
	case a.begins("values"):
		rows, after := a.from(1).list("on", "returning")
		for _, row := range rows {
			within, _ := row.parenthesis()
			values, _ := within.list()
			add(values)
		}
		a = after
	case a.begins("select"):
		var values []analysis
		values, a = a.from(1).list("from", "on", "returning")
		add(values)
	}
	for i := range a.tokens {
		if rest := a.from(i); rest.begins("do", "update", "set") {
			return append(out, rest.from(3).assignments(table)...)
		}
	}
	return out
}

// assignments examines what follows SET.
func (a analysis) assignments(table string) (out []Set) {
	items, _ := a.list("from", "where", "returning")
	for _, one := range items {
		if len(one.tokens) > 2 && one.tokens[0].mark('(') { // (a, b) = (x, y)
			names, values := one.parenthesis()
			columns, _ := names.list()
			for _, c := range columns {
				if len(c.tokens) > 0 && values.nondeterministic() {
					out = append(out, Set{Table: table, Column: c.tokens[0].text})
				}
			}
		} else if len(one.tokens) > 2 && one.from(2).nondeterministic() {
			out = append(out, Set{Table: table, Column: one.tokens[0].text})
		}
	}
	return out
}

// create examines what follows CREATE.
func (a analysis) create() (out []Set) {
	a = a.skip("global", "local", "temporary", "temp", "unlogged", "foreign")
	if !a.begins("table") {
		return nil
	}
	table, a := a.from(1).skip("if", "not", "exists").table()
	if len(a.tokens) == 0 || !a.tokens[0].mark('(') {
		return nil
	}
	within, _ := a.parenthesis()
	items, _ := within.list()
	for _, one := range items {
		out = append(out, one.columnDefault(table, 0)...)
	}
	return out
}

// alter examines what follows ALTER TABLE.
func (a analysis) alter() (out []Set) {
	table, a := a.skip("if", "exists").table()
	items, _ := a.list()
	for _, one := range items {
		switch {
		case one.begins("add"):
			one = one.from(1).skip("column", "if", "not", "exists")
		case one.begins("alter"):
			one = one.from(1).skip("column")
		default:
			continue
		}
		out = append(out, one.columnDefault(table, 0)...)
	}
	return out
}

// columnDefault returns the column that a begins with, if its default is nondeterministic.
func (a analysis) columnDefault(table string, name int) []Set {
	for i, t := range a.tokens {
		if i > name && t.is("default") && a.from(i+1).nondeterministic() {
			return []Set{{Table: table, Column: a.tokens[name].text}}
		}
	}
	return nil
}

// Assigned returns the columns of the new row to which a trigger function assigns nondeterministic values, as
// far as its source shows.
func Assigned(source string, functions Functions) (columns []string) {
	for _, one := range split(scan(source)) {
		a := analysis{tokens: one, functions: functions}
		for i, t := range one {
			if !t.is("new") || !a.from(i+1).follows('.') || len(one) < i+5 {
				continue
			}
			value := a.from(i + 3)
			if value.follows(':') {
				value = value.from(1)
			}
			if value.follows('=') && value.from(1).nondeterministic() {
				columns = append(columns, one[i+2].text)
			}
		}
	}
	return columns
}

func (a analysis) follows(c byte) bool { return len(a.tokens) > 0 && a.tokens[0].mark(c) }

// String returns the name for messages.
func (s Set) String() string {
	if s.Column == "" {
		return s.Table + "." + strconv.Itoa(s.Index+1)
	}
	return s.Table + "." + s.Column
}
