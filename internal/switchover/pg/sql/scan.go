package sql

import "strings"

// kind of a token.
type kind uint8

const (
	word    kind = iota // a key word or a name, in lower case
	quoted              // a name in quotes
	literal             // a string or a number
	param               // $1
	mark                // everything else, one token per byte
)

// token is one token of a statement. Space and comments are not tokens.
type token struct {
	kind kind
	text string // quoted names are without their quotes; parameters have none
}

func (t token) is(text string) bool { return t.kind == word && t.text == text }

func (t token) mark(c byte) bool { return t.kind == mark && t.text[0] == c }

// scan splits a text into tokens. An unterminated token extends to the end of the text: the server would
// refuse it.
func scan(text string) (out []token) {
	for i := 0; i < len(text); {
		t, n := next(text[i:])
		if n == 0 {
			break
		}
		if t.kind == literal {
			t.text = text[i : i+n]
		}
		if t.text != "" || t.kind != mark {
			out = append(out, t)
		}
		i += n
	}
	return out
}

// next returns the token that s begins with, and its length in bytes. For space and comments it returns a
// mark without text.
func next(s string) (token, int) {
	c := s[0]
	switch {
	case strings.IndexByte(" \t\n\r\f\v", c) >= 0:
		return token{kind: mark}, 1
	case strings.HasPrefix(s, "--"):
		return token{kind: mark}, skipTo(s, "\n", 2)
	case strings.HasPrefix(s, "/*"):
		return token{kind: mark}, comment(s)
	case c == '\'':
		return token{kind: literal}, quotedEnd(s, 0, false)
	case c == '"':
		n := quotedEnd(s, 0, false)
		return token{quoted, strings.Trim(s[:n], `"`)}, n
	case c == '$':
		return dollar(s)
	case isDigit(c) || c == '.' && len(s) > 1 && isDigit(s[1]):
		return token{kind: literal}, numberEnd(s)
	case isLetter(c):
		return wordOf(s)
	}
	return token{mark, s[:1]}, 1
}

// wordOf returns a word, or the string literal that it is the prefix of.
func wordOf(s string) (token, int) {
	n := 1
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '$') {
		n++
	}
	text := strings.ToLower(s[:n])
	if n < len(s) && s[n] == '\'' {
		switch text {
		case "e":
			return token{kind: literal}, quotedEnd(s, n, true)
		case "b", "x", "n":
			return token{kind: literal}, quotedEnd(s, n, false)
		}
	}
	if text == "u" && n+1 < len(s) && s[n] == '&' && (s[n+1] == '\'' || s[n+1] == '"') {
		end := quotedEnd(s, n+1, false)
		if s[n+1] == '"' {
			return token{quoted, s[:end]}, end
		}
		return token{kind: literal}, end
	}
	return token{word, text}, n
}

// quotedEnd returns the index after the quote that closes the one at s[at].
func quotedEnd(s string, at int, escapes bool) int {
	quote := s[at]
	for i := at + 1; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\':
			i++
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i++
		case s[i] == quote:
			return i + 1
		}
	}
	return len(s)
}

// dollar returns a parameter, or a string in dollar quotes.
func dollar(s string) (token, int) {
	n := 1
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	if n > 1 {
		return token{kind: param}, n
	}
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
		n++
	}
	if n < len(s) && s[n] == '$' {
		return token{kind: literal}, skipTo(s, s[:n+1], n+1)
	}
	return token{mark, "$"}, 1
}

// comment returns the length of a comment, which may be nested.
func comment(s string) int {
	depth := 0
	for i := 0; i+1 < len(s); i++ {
		switch s[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// skipTo returns the index after the first occurrence of end at or after index from.
func skipTo(s, end string, from int) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(s)
}

func numberEnd(s string) int {
	n := 1
	for n < len(s) {
		exponentSign := (s[n] == '+' || s[n] == '-') && (s[n-1] == 'e' || s[n-1] == 'E') && !strings.HasPrefix(s, "0x")
		if !isDigit(s[n]) && !isLetter(s[n]) && s[n] != '.' && !exponentSign {
			break
		}
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isLetter reports whether a name may begin with c. Bytes of non-ASCII characters may be in names.
func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}
