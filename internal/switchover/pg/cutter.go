package pg

// Piece is a message, or a part of one.
type Piece struct {
	Type        byte
	First, Last bool
	Body        []byte // without type and length
	Raw         []byte
}

// Cutter cuts a connection's bytes into pieces as they arrive. A message of a type in Read comes complete, or
// with at least its first Most bytes. Other messages come in the pieces in which they arrive, so that they
// need no buffer.
type Cutter struct {
	Read *[256]bool // types of messages that the caller parses
	Most int        // bytes, type and length included

	kind byte
	left int // remaining bytes of the current message
}

// Next returns the piece that b begins with. It shares b's memory. If ok is false the caller must keep b,
// which has fewer than Most bytes or less than a header, and call again with more.
func (c *Cutter) Next(b []byte) (p Piece, ok bool, err error) {
	if c.left > 0 {
		n := min(c.left, len(b))
		c.left -= n
		return Piece{Type: c.kind, Last: c.left == 0, Body: b[:n], Raw: b[:n]}, n > 0, nil
	}
	total, err := MessageBytes(b)
	if total == 0 || c.Read[b[0]] && len(b) < min(total, c.Most) {
		return p, false, err
	}
	k := min(total, len(b))
	c.kind, c.left = b[0], total-k
	return Piece{Type: b[0], First: true, Last: c.left == 0, Body: b[HeaderBytes:k], Raw: b[:k]}, true, nil
}

// Between reports whether the next byte begins a message.
func (c *Cutter) Between() bool { return c.left == 0 }
