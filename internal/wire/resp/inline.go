package resp

// SplitInline splits an inline request line (without its line break) into arguments
// as Redis's sdssplitargs does: blanks separate, "…" takes \n \r \t \b \a \xHH and
// escaped characters, '…' takes only \'. It reports false for unbalanced quotes, which
// the server answers with a protocol error. The arguments are copies.
func SplitInline(line []byte) (args [][]byte, ok bool) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i >= len(line) || line[i] == 0 {
			return args, true
		}
		arg, next, ok := inlineArg(line, i)
		if !ok {
			return nil, false
		}
		args = append(args, arg)
		i = next
	}
}

// inlineArg reads the argument that starts at line[i] and returns the index after it.
func inlineArg(line []byte, i int) (arg []byte, next int, ok bool) {
	arg = []byte{}
	for i < len(line) {
		switch c := line[i]; {
		case c == '"':
			arg, i, ok = doubleQuoted(arg, line, i+1)
			return arg, i, ok
		case c == '\'':
			arg, i, ok = singleQuoted(arg, line, i+1)
			return arg, i, ok
		case c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == 0:
			return arg, i, true
		default:
			arg = append(arg, c)
			i++
		}
	}
	return arg, i, true
}

func doubleQuoted(arg, line []byte, i int) ([]byte, int, bool) {
	for i < len(line) && line[i] != 0 {
		c := line[i]
		switch {
		case c == '\\' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			arg = append(arg, unhex(line[i+2])<<4|unhex(line[i+3]))
			i += 4
		case c == '\\' && i+1 < len(line):
			arg = append(arg, unescape(line[i+1]))
			i += 2
		case c == '"':
			return arg, i + 1, closesArg(line, i+1)
		default:
			arg = append(arg, c)
			i++
		}
	}
	return nil, i, false
}

func singleQuoted(arg, line []byte, i int) ([]byte, int, bool) {
	for i < len(line) && line[i] != 0 {
		c := line[i]
		switch {
		case c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			arg = append(arg, '\'')
			i += 2
		case c == '\'':
			return arg, i + 1, closesArg(line, i+1)
		default:
			arg = append(arg, c)
			i++
		}
	}
	return nil, i, false
}

// closesArg reports whether a closing quote before i is followed by a blank or the end.
func closesArg(line []byte, i int) bool {
	return i >= len(line) || line[i] == 0 || isSpace(line[i])
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// isSpace reports what C's isspace does in the "C" locale.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}
