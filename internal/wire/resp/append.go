package resp

import "strconv"

// The Append functions add one encoded element to dst and return the extended slice,
// as append does.

// AppendArray appends the header of an array (or of a request) of n elements.
func AppendArray(dst []byte, n int) []byte { return appendHeader(dst, '*', int64(n)) }

// AppendBulk appends a bulk string.
func AppendBulk[T ~[]byte | ~string](dst []byte, b T) []byte {
	dst = AppendBulkHeader(dst, len(b))
	dst = append(dst, b...)
	return append(dst, '\r', '\n')
}

// AppendBulkHeader appends the "$n\r\n" in front of n bytes and their CRLF.
func AppendBulkHeader(dst []byte, n int) []byte { return appendHeader(dst, '$', int64(n)) }

// AppendInt appends an integer reply.
func AppendInt(dst []byte, n int64) []byte { return appendHeader(dst, ':', n) }

// AppendNull appends the null of the given protocol version (2: a null bulk string).
func AppendNull(dst []byte, version int) []byte {
	if version >= 3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "$-1\r\n"...)
}

// AppendError appends an error reply; text holds its code and message without a line
// break ("ERR cinch: …").
func AppendError(dst []byte, text string) []byte {
	dst = append(dst, '-')
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, '\r', '\n')
}

// AppendCommand appends a request made of args.
func AppendCommand(dst []byte, args ...string) []byte {
	dst = AppendArray(dst, len(args))
	for _, a := range args {
		dst = AppendBulk(dst, a)
	}
	return dst
}

// AppendArgs appends a request made of args.
func AppendArgs(dst []byte, args [][]byte) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	dst = append(dst, '\r', '\n')
	for _, a := range args {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(a)), 10)
		dst = append(dst, '\r', '\n')
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// MaxHeaderLen is the length in bytes of the longest header that the Append functions make, with its line break.
const MaxHeaderLen = 1 + 20 + 2

func appendHeader(dst []byte, kind byte, n int64) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}
