package sql

import "strconv"

// Set is a column that a statement gives a nondeterministic value or default.
type Set struct {
	Table  string // without its schema
	Column string // "": the column with number Index
	Index  int    // from 0
}

// sets returns the Sets of a statement: in assignments, in VALUES and select lists of an INSERT, in defaults.
func (j judgement) sets() (out []Set) {
	for i, t := range j.tokens {
		rest := j.from(i + 1)
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

func (j judgement) from(i int) judgement {
	j.tokens = j.tokens[min(i, len(j.tokens)):]
	return j
}

func (j judgement) begins(words ...string) bool {
	for i, w := range words {
		if i >= len(j.tokens) || !j.tokens[i].is(w) {
			return false
		}
	}
	return true
}

// skip drops optional words at the beginning.
func (j judgement) skip(words ...string) judgement {
	for _, w := range words {
		if j.begins(w) {
			j = j.from(1)
		}
	}
	return j
}

// table parses a table name and drops its schema.
func (j judgement) table() (string, judgement) {
	j = j.skip("only")
	for len(j.tokens) > 1 && j.tokens[1].mark('.') {
		j = j.from(2)
	}
	if len(j.tokens) == 0 || j.tokens[0].kind != word && j.tokens[0].kind != quoted {
		return "", judgement{functions: j.functions}
	}
	return j.tokens[0].text, j.from(1)
}

func (j judgement) skipAlias() judgement {
	if j = j.skip("as"); len(j.tokens) > 0 && j.tokens[0].kind != mark && !j.begins("set") {
		return j.from(1)
	}
	return j
}

// parenthesis returns the content of the parentheses that j begins with, and what follows them.
func (j judgement) parenthesis() (within, after judgement) {
	depth := 0
	for i, t := range j.tokens {
		switch {
		case t.mark('('):
			depth++
		case t.mark(')'):
			if depth--; depth == 0 {
				within, after = j, j.from(i+1)
				within.tokens = j.tokens[1:i]
				return within, after
			}
		}
	}
	return judgement{functions: j.functions}, judgement{functions: j.functions}
}

// list splits at commas, up to one of the words in ends or the closing parenthesis.
func (j judgement) list(ends ...string) (items []judgement, after judgement) {
	depth, from := 0, 0
	item := func(to int) {
		one := j
		one.tokens = j.tokens[from:to]
		items = append(items, one)
		from = to + 1
	}
	for i, t := range j.tokens {
		switch {
		case t.mark('('):
			depth++
		case t.mark(')') && depth == 0:
			item(i)
			return items, j.from(i)
		case t.mark(')'):
			depth--
		case depth == 0 && t.mark(','):
			item(i)
		case depth == 0 && t.kind == word:
			for _, end := range ends {
				if t.text == end {
					item(i)
					return items, j.from(i)
				}
			}
		}
	}
	item(len(j.tokens))
	return items, j.from(len(j.tokens))
}

// insert examines what follows INSERT INTO.
func (j judgement) insert() (out []Set) {
	table, j := j.table()
	if j.begins("as") {
		j = j.from(2)
	}
	var columns []judgement
	if len(j.tokens) > 0 && j.tokens[0].mark('(') && !j.from(1).begins("select") {
		var within judgement
		within, j = j.parenthesis()
		columns, _ = within.list()
	}
	add := func(values []judgement) {
		for i, v := range values {
			if !v.nature() {
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
	case j.begins("values"):
		rows, after := j.from(1).list("on", "returning")
		for _, row := range rows {
			within, _ := row.parenthesis()
			values, _ := within.list()
			add(values)
		}
		j = after
	case j.begins("select"):
		var values []judgement
		values, j = j.from(1).list("from", "on", "returning")
		add(values)
	}
	for i := range j.tokens {
		if rest := j.from(i); rest.begins("do", "update", "set") {
			return append(out, rest.from(3).assignments(table)...)
		}
	}
	return out
}

// assignments examines what follows SET.
func (j judgement) assignments(table string) (out []Set) {
	items, _ := j.list("from", "where", "returning")
	for _, one := range items {
		if len(one.tokens) > 2 && one.tokens[0].mark('(') { // (a, b) = (x, y)
			names, values := one.parenthesis()
			columns, _ := names.list()
			for _, c := range columns {
				if len(c.tokens) > 0 && values.nature() {
					out = append(out, Set{Table: table, Column: c.tokens[0].text})
				}
			}
		} else if len(one.tokens) > 2 && one.from(2).nature() {
			out = append(out, Set{Table: table, Column: one.tokens[0].text})
		}
	}
	return out
}

// create examines what follows CREATE.
func (j judgement) create() (out []Set) {
	j = j.skip("global", "local", "temporary", "temp", "unlogged", "foreign")
	if !j.begins("table") {
		return nil
	}
	table, j := j.from(1).skip("if", "not", "exists").table()
	if len(j.tokens) == 0 || !j.tokens[0].mark('(') {
		return nil
	}
	within, _ := j.parenthesis()
	items, _ := within.list()
	for _, one := range items {
		out = append(out, one.defaulted(table, 0)...)
	}
	return out
}

// alter examines what follows ALTER TABLE.
func (j judgement) alter() (out []Set) {
	table, j := j.skip("if", "exists").table()
	items, _ := j.list()
	for _, one := range items {
		switch {
		case one.begins("add"):
			one = one.from(1).skip("column", "if", "not", "exists")
		case one.begins("alter"):
			one = one.from(1).skip("column")
		default:
			continue
		}
		out = append(out, one.defaulted(table, 0)...)
	}
	return out
}

// defaulted returns the column that j begins with, if its default is nondeterministic.
func (j judgement) defaulted(table string, name int) []Set {
	for i, t := range j.tokens {
		if i > name && t.is("default") && j.from(i+1).nature() {
			return []Set{{Table: table, Column: j.tokens[name].text}}
		}
	}
	return nil
}

// Assigned returns the columns of the new row to which a trigger function assigns nondeterministic values, as
// far as its source shows.
func Assigned(source string, functions Functions) (columns []string) {
	for _, one := range split(scan(source)) {
		j := judgement{tokens: one, functions: functions}
		for i, t := range one {
			if !t.is("new") || !j.from(i+1).follows('.') || len(one) < i+5 {
				continue
			}
			value := j.from(i + 3)
			if value.follows(':') {
				value = value.from(1)
			}
			if value.follows('=') && value.from(1).nature() {
				columns = append(columns, one[i+2].text)
			}
		}
	}
	return columns
}

func (j judgement) follows(c byte) bool { return len(j.tokens) > 0 && j.tokens[0].mark(c) }

// String returns the name for messages.
func (s Set) String() string {
	if s.Column == "" {
		return s.Table + "." + strconv.Itoa(s.Index+1)
	}
	return s.Table + "." + s.Column
}
