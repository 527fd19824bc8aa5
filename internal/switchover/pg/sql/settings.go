package sql

import "strings"

// Settings returns the names of the custom settings (with a dot, such as app.tenant) that a text sets: the server lists
// only the settings that it knows itself. all is false if names is incomplete because the text computes a name.
func Settings(text string) (names []string, all bool) {
	if !MaySet(text) {
		return nil, true
	}
	all = true
	words := scan(text)
	for i, w := range words {
		switch {
		case w.is("set") && (i == 0 || words[i-1].mark(';')):
			if name := settingName(words[i+1:]); strings.Contains(name, ".") {
				names = append(names, name)
			}
		case w.is("set_config") && i+2 < len(words) && words[i+1].mark('('):
			name, known := plainLiteral(words[i+2])
			all = all && known && i+3 < len(words) && words[i+3].mark(',')
			if strings.Contains(name, ".") {
				names = append(names, strings.ToLower(name))
			}
		}
	}
	return names, all
}

// MaySet reports whether a text may set anything. It is quick, and false for most texts.
func MaySet[text string | []byte](s text) bool {
	for i := 0; i+3 < len(s); i++ {
		if s[i]|0x20 == 's' && s[i+1]|0x20 == 'e' && s[i+2]|0x20 == 't' {
			return true
		}
	}
	return false
}

// settingName returns the name after SET.
func settingName(words []token) (name string) {
	for len(words) > 0 && (words[0].is("session") || words[0].is("local")) {
		words = words[1:]
	}
	for _, w := range words {
		if w.kind != word && w.kind != quoted && !w.mark('.') || w.is("to") {
			break
		}
		name += strings.ToLower(w.text)
	}
	return name
}

// plainLiteral returns the content of a literal in plain quotes that contains no quote.
func plainLiteral(w token) (string, bool) {
	n := len(w.text)
	if w.kind != literal || n < 2 || w.text[0] != '\'' || strings.Count(w.text, "'") != 2 {
		return "", false
	}
	return w.text[1 : n-1], true
}

// Prepares returns the name of the one statement that a text prepares; ok is false if the text is anything
// else or more than one PREPARE.
func Prepares(text string) (name string, ok bool) {
	all := split(scan(text))
	if len(all) != 1 || len(all[0]) < 3 || !all[0][0].is("prepare") || all[0][1].is("transaction") && all[0][2].kind == literal {
		return "", false
	}
	return all[0][1].text, true
}
