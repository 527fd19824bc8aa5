package sql

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Longest name and longest masked expression, in bytes.
const (
	maxNameBytes = 160
	maxMaskBytes = 400
)

// nameOf returns a statement without its values: a literal or parameter becomes "?", a list of them one "?", and a list
// of rows one row. Space and comments are dropped; everything except quoted names is in lower case.
func nameOf(tokens []token) string {
	var parts []string
	for i, t := range tokens {
		switch {
		case t.kind == literal || t.kind == param:
			if len(parts) > 0 && parts[len(parts)-1] == "-" && signAt(tokens, i-1) {
				parts = parts[:len(parts)-1]
			}
			parts = append(parts, "?")
		case t.kind == quoted:
			parts = append(parts, `"`+t.text+`"`)
		default:
			parts = append(parts, t.text)
		}
		parts = collapse(parts)
	}
	return join(parts)
}

// Mask returns an expression without its values, as nameOf does. One longer than maxMaskBytes is cut and ends with a
// hash.
func Mask(expression string) string { return short(nameOf(scan(expression)), maxMaskBytes) }

// signAt reports whether the minus at i is a sign and not an operator.
func signAt(tokens []token, i int) bool {
	if i == 0 {
		return true
	}
	before := tokens[i-1]
	return before.kind == mark && !before.mark(')') && !before.mark(']') || before.kind == word && isKeyword(before.text)
}

// collapse replaces "?, ?" by one value and "(?), (?)" by one row at the end of parts.
func collapse(parts []string) []string {
	n := len(parts)
	if n >= 3 && parts[n-1] == "?" && parts[n-2] == "," && parts[n-3] == "?" {
		return parts[:n-2]
	}
	if n >= 7 && strings.Join(parts[n-7:], "") == "(?),(?)" {
		return parts[:n-4]
	}
	return parts
}

// join joins the parts with spaces where a person would write them.
func join(parts []string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 && spaced(parts[i-1], p) {
			b.WriteByte(' ')
		}
		b.WriteString(p)
	}
	return b.String()
}

func spaced(before, p string) bool {
	switch {
	case p == "," || p == ")" || p == "." || p == ";" || p == "]" || p == "[" || before == "(" || before == "." || before == "[":
		return false
	case p == "(":
		return isKeyword(before) || before == "," || before == ")" || isMark(before)
	case before == ":" || p == ":":
		return false
	case isMark(before) && isMark(p):
		return before == ")" || before == ","
	}
	return true
}

func isMark(p string) bool {
	return len(p) == 1 && p != "?" && !isLetter(p[0]) && !isDigit(p[0])
}

// short cuts a name that is longer than most bytes and appends a hash of the whole.
func short(name string, most int) string {
	if len(name) <= most {
		return name
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("%s… #%08x", strings.ToValidUTF8(name[:most], ""), h.Sum32())
}
