package sql

import (
	"regexp"
	"strings"
)

var (
	// secret is in every statement that has a password: ALTER ROLE app PASSWORD 'x', OPTIONS (password 'x'), CONNECTION 'password=x'.
	secret = regexp.MustCompile(`(?i)password`)
	// within is a string that holds one.
	within = regexp.MustCompile(`(?i)password\s*[='$]`)
)

// HidePasswords returns a text of the same length without the passwords in it: those of roles, and of connections to other servers.
func HidePasswords(text string) string {
	if !secret.MatchString(text) {
		return text
	}
	var out strings.Builder
	follows := false // a password
	for i := 0; i < len(text); {
		t, n := next(text[i:])
		piece := text[i : i+n]
		if t.kind == literal {
			piece = hidden(piece, follows)
		}
		if t.kind != mark || t.text != "" {
			follows = t.is("password")
		}
		out.WriteString(piece)
		i += n
	}
	return out.String()
}

// hidden is a literal without its content if that is a password, or a string with one in it.
func hidden(literal string, password bool) string {
	if strings.HasPrefix(literal, "$") {
		tag := strings.IndexByte(literal[1:], '$') + 2
		end := len(literal) - tag
		switch {
		case end < tag || literal[end:] != literal[:tag]: // it has no end
			return literal[:tag] + strings.Repeat("x", len(literal)-tag)
		case password:
			return literal[:tag] + strings.Repeat("x", end-tag) + literal[end:]
		}
		return literal[:tag] + HidePasswords(literal[tag:end]) + literal[end:]
	}
	first, last := strings.IndexByte(literal, '\''), len(literal)
	if first < 0 {
		return literal
	}
	if literal[last-1] == '\'' && last-1 > first {
		last--
	}
	if !password && !within.MatchString(literal[first+1:last]) {
		return literal
	}
	return literal[:first+1] + strings.Repeat("x", last-first-1) + literal[last:]
}
