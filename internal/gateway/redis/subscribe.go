package redis

import (
	"bytes"
	"strings"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Some frames answer no request: pushes, messages to subscribers in RESP2, MONITOR's
// lines. And the requests about subscriptions are answered with an acknowledgement for
// each channel, which RESP3 sends as pushes and CLIENT REPLY OFF does not silence.

// isUnasked tells messages from replies. kind is the first byte of the frame.
func (p *replyPump) isUnasked(kind byte) (bool, error) {
	switch {
	case kind == resp.Push:
		ack, err := p.isAck()
		return !ack || !p.s.queue.expectsAck(), err
	case kind == resp.Simple && p.monitoring:
		line, _, err := p.peek()
		return err == nil && isMonitorLine(line), err
	case kind == resp.Array && p.s.version.Load() == 2:
		name, err := p.firstWord()
		moved := name == "sunsubscribe" && !p.s.queue.expectsAck()
		return moved || name == "message" || name == "pmessage" || name == "smessage", err
	}
	return false, nil
}

// isMonitorLine matches `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
func isMonitorLine(line []byte) bool {
	at := bytes.IndexByte(line, ' ')
	if at < 3 || at+1 >= len(line) || line[at+1] != '[' {
		return false
	}
	return strings.Trim(string(line[1:at]), "0123456789.") == ""
}

// isAck reports whether the frame at hand acknowledges a subscription.
func (p *replyPump) isAck() (bool, error) {
	name, err := p.firstWord()
	return strings.HasSuffix(name, "subscribe") && len(name) <= len("punsubscribe"), err
}

// firstWord returns the first element of the aggregate at hand when it is a short bulk
// string, without consuming anything.
func (p *replyPump) firstWord() (string, error) {
	line, err := p.in.Line()
	if err != nil {
		return "", err
	}
	h, err := resp.ParseHead(line)
	if err != nil || h.N < 1 {
		return "", err
	}
	off := len(line)
	if line, err = p.in.LineAt(off); err != nil {
		return "", err
	}
	h, err = resp.ParseHead(line)
	if err != nil || h.Kind != resp.Bulk || h.N < 1 || h.N > maxNameBytes {
		return "", err
	}
	off += len(line)
	b, err := p.in.Peek(off + int(h.N))
	if err != nil {
		return "", err
	}
	return string(b[off:]), nil
}

// subscriptions is the number of acknowledgements that an unsubscribe from everything
// of that class brings.
func (p *replyPump) subscriptions(class byte) int {
	n := p.subs
	switch class {
	case 'p', 'P':
		n = p.patterns
	case 's', 'S':
		n = p.shards
	}
	return int(max(n, 1))
}

// carrySubscribe carries n acknowledgements, or one error, and what comes in between.
func (p *replyPump) carrySubscribe(n int) error {
	muted := p.mute
	for n > 0 {
		b, err := p.in.Peek(1)
		if err != nil {
			return err
		}
		ack := false
		if b[0] == resp.Push || b[0] == resp.Array {
			if ack, err = p.isAck(); err != nil {
				return err
			}
		}
		switch {
		case ack:
			p.mute = false // the server sends them in spite of CLIENT REPLY OFF
			err = p.copyAck()
			n--
		case b[0] == resp.Push || b[0] == resp.Array:
			err = p.passUnasked(nil)
		default:
			p.mute = muted
			return p.copy(shapeNone, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyUnaskedAck carries the end of a subscription that the server has ended, as it does
// when the channel's slot moves to another node.
func (p *replyPump) copyUnaskedAck(err error) error {
	if err != nil {
		return err
	}
	return p.copyAck()
}

// copyAck carries an acknowledgement and keeps the books: its third element counts
// channels and patterns together, or shard channels.
func (p *replyPump) copyAck() error {
	name, err := p.firstWord()
	if err != nil {
		return err
	}
	var total int64
	for range 3 {
		if total, err = p.copyPart(); err != nil {
			return err
		}
	}
	p.keepBooks(name, total)
	return nil
}

// copyPart carries one element (the first with the line of the array) and returns its
// number, if it is one.
func (p *replyPump) copyPart() (n int64, err error) {
	line, h, err := p.peek()
	if err != nil {
		return 0, err
	}
	if h.Kind == resp.Integer {
		n, _ = resp.ParseInt(line[1 : len(line)-2])
	}
	if err := p.emitLine(line); err != nil {
		return 0, err
	}
	switch {
	case h.IsAggregate():
		return p.copyPart()
	case h.IsString() && h.N >= 0:
		return 0, p.in.CopyTo(h.N+2, p.emit)
	}
	return n, nil
}

func (p *replyPump) keepBooks(name string, total int64) {
	switch name {
	case "subscribe", "unsubscribe":
		p.subs = total - p.patterns
	case "psubscribe", "punsubscribe":
		p.patterns = total - p.subs
	default:
		p.shards = total
	}
	p.s.channels.Store(p.subs + p.patterns + p.shards)
}
