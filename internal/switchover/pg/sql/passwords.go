package sql

import (
	"regexp"
	"strings"
)

var (
	// secret matches every statement that may have a password: ALTER ROLE app PASSWORD 'x', OPTIONS (password
	// 'x'), CONNECTION 'password=x'.
	secret = regexp.MustCompile(`(?i)password`)
	// within matches a string that contains a password.
	within = regexp.MustCompile(`(?i)password\s*[='$]`)
)

// HidePasswords returns text with each byte of a password replaced by x: passwords of roles and of connections to other
// servers.
func HidePasswords(text string) string {
	if !secret.MatchString(text) {
		return text
	}
	var out strings.Builder
	follows := false // the next literal is a password
	for i := 0; i < len(text); {
		t, n := next(text[i:])
		piece := text[i : i+n]
		if t.kind == literal {
			piece = mask(piece, follows)
		}
		if t.kind != mark || t.text != "" {
			follows = t.is("password")
		}
		out.WriteString(piece)
		i += n
	}
	return out.String()
}

// mask returns a literal without its content if that is a password or contains one.
func mask(literal string, password bool) string {
	if strings.HasPrefix(literal, "$") {
		tag := strings.IndexByte(literal[1:], '$') + 2
		end := len(literal) - tag
		switch {
		case end < tag || literal[end:] != literal[:tag]: // unterminated
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
