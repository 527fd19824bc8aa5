package inspect

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// WriteText writes the report as a table for people.
func (r Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	switch {
	case !r.Envelope:
		row("envelope", "no: not an envelope, a plain value")
		row("stored", "%d bytes", r.StoredBytes)
	case r.Header == nil:
		row("envelope", "begins like one, but its header can't be read")
		row("stored", "%d bytes", r.StoredBytes)
	default:
		r.Header.rows(row, r.StoredBytes)
	}
	if r.Readable {
		if r.Envelope {
			row("opens", "yes")
		}
		row("value begins", "%s", r.ValueStart)
	} else {
		row("opens", "no: %s", r.ErrorText)
	}
	return t.Flush()
}

func (h *Header) rows(row func(name, format string, args ...any), stored int) {
	row("envelope", "yes, magic %s, version %d", h.Magic, h.Version)
	row("codec", "%s (%d)", h.Codec, h.CodecID)
	if h.Dictionary == "" {
		row("dictionary", "none")
	} else {
		row("dictionary", "%s", h.Dictionary)
	}
	row("value", "%d bytes", h.RawBytes)
	row("stored", "%d bytes: header %d, payload %d", stored, h.HeaderBytes, h.PayloadBytes)
	if h.Foreign != "" {
		row("foreign", "the value's content without the format %s; readers get the value in that format", h.Foreign)
	}
	row("ratio", "%.2f", h.Ratio)
	if h.Tag != "" {
		row("tag", "%s, %s", h.Tag, h.TagResult)
	} else {
		row("checksum", "%s, %s", h.Checksum, h.ChecksumResult)
	}
	if h.ExtensionWords > 0 {
		row("extension", "%d bytes, skipped", 4*h.ExtensionWords)
	}
}

// Preview returns the first limit bytes of b, quoted if they are printable text, otherwise the first limit/2
// bytes in hex. It appends … if there is more.
func Preview(b []byte, limit int) string {
	head, more := b, ""
	if len(b) > limit {
		head, more = b[:limit], "…"
		for n := 0; n < utf8.UTFMax-1 && !utf8.Valid(head); n++ { // a character cut in two
			head = head[:len(head)-1]
		}
	}
	if printable(head) {
		return fmt.Sprintf("%q", head) + more
	}
	return fmt.Sprintf("hex % x", b[:min(limit/2, len(b))]) + map[bool]string{true: "…"}[len(b) > limit/2]
}

// printable reports whether b is UTF-8 without control characters other than white space.
func printable(b []byte) bool {
	return utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool {
		return !unicode.IsPrint(r) && !unicode.IsSpace(r)
	}) < 0
}
