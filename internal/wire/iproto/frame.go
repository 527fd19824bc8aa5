package iproto

import "fmt"

// MaxFrame is the longest frame, in bytes, that servers accept, without its length prefix.
const MaxFrame = 2 << 30

// ErrTooLarge is returned for frames longer than MaxFrame.
var ErrTooLarge = fmt.Errorf("%w: the frame is too large", ErrMalformed)

// Prefix reads the length prefix of a frame. The prefix has size bytes, and n bytes follow it. size is 0 if b does not
// hold the whole prefix yet.
func Prefix(b []byte) (n, size int, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	switch lead := b[0]; {
	case lead <= 0x7f:
		size = 1
	case lead >= 0xcc && lead <= 0xcf:
		size = 1 + 1<<(lead-0xcc)
	default:
		return 0, 0, fmt.Errorf("%w: no length in front of a frame", ErrMalformed)
	}
	if len(b) < size {
		return 0, 0, nil
	}
	length, _ := Uint(b[:size])
	if length > MaxFrame {
		return 0, size, fmt.Errorf("%w: %d bytes", ErrTooLarge, length)
	}
	return int(length), size, nil
}

// Header holds the contents of a frame's header. Spans are positions in the frame.
type Header struct {
	Type    Type
	Sync    uint64
	Stream  uint64
	Schema  uint64 // version; 0: none, or one that the server does not check
	Map     Span   // all of the header
	Count   int    // number of entries
	Entries int    // position of the first entry
	Version Span   // value of the schema version; Len is 0 if it is missing
	SyncAt  Span   // value of the sync
}

// Parse reads the header at the start of a frame without its length prefix. Like the server it skips unknown
// keys, and uses the last of several equal keys.
func (h *Header) Parse(frame []byte) error {
	*h = Header{}
	m, err := ReadHead(frame, 0)
	if err != nil {
		return err
	}
	if m.Kind != Map {
		return fmt.Errorf("%w: the header is no map", ErrMalformed)
	}
	h.Count, h.Entries = m.Count, m.Content.At
	at := m.Content.At
	for range m.Count {
		key, value, err := entry(frame, at)
		if err != nil {
			return err
		}
		n, ok := Uint(value.Of(frame))
		switch key {
		case keyType:
			h.Type = Type(n)
			ok = ok && uint64(h.Type) == n
		case keySync:
			h.Sync, h.SyncAt = n, value
		case keySchemaVersion:
			h.Schema, h.Version = n, value
		case keyStream:
			h.Stream = n
		default:
			ok = true
		}
		if !ok {
			return fmt.Errorf("%w: key %#x of the header", ErrMalformed, key)
		}
		at = value.End()
	}
	h.Map = Span{0, at}
	return nil
}

// Body holds the spans of the values that a gateway needs. A span of length 0 means that the value is
// missing. Of several values with one key the last counts, as it does for the server.
type Body struct {
	At, End int // of the body; other bytes may follow it

	SpaceID, SpaceName Span
	IndexID, IndexName Span
	IndexBase          Span
	Key, Tuple, Ops    Span
	Function, Expr     Span
	SQLText, StmtID    Span
	Data, Error        Span
	Features           Span
	User               Span
	Event              Span // name of the event that is watched
}

// Parse finds the parts of the body at frame[at:]. The body is empty if the frame ends there.
func (b *Body) Parse(frame []byte, at int) error {
	*b = Body{At: at, End: at}
	if at == len(frame) {
		return nil
	}
	m, err := ReadHead(frame, at)
	if err != nil {
		return err
	}
	if m.Kind != Map {
		return fmt.Errorf("%w: the body is no map", ErrMalformed)
	}
	at = m.Content.At
	for range m.Count {
		key, value, err := entry(frame, at)
		if err != nil {
			return err
		}
		switch key {
		case keySpaceID:
			b.SpaceID = value
		case keySpaceName:
			b.SpaceName = value
		case keyIndexID:
			b.IndexID = value
		case keyIndexName:
			b.IndexName = value
		case keyIndexBase:
			b.IndexBase = value
		case keyKey:
			b.Key = value
		case keyTuple:
			b.Tuple = value
		case keyOps:
			b.Ops = value
		case keyFunction:
			b.Function = value
		case keyExpr:
			b.Expr = value
		case keySQLText:
			b.SQLText = value
		case keyStmtID:
			b.StmtID = value
		case keyData:
			b.Data = value
		case keyError:
			b.Error = value
		case keyFeatures:
			b.Features = value
		case keyUser:
			b.User = value
		case keyEvent:
			b.Event = value
		}
		at = value.End()
	}
	b.End = at
	return nil
}

// otherKey stands for keys that are not unsigned integers.
const otherKey = 1 << 32

// entry reads a map's key and finds its value.
func entry(b []byte, at int) (key uint64, value Span, err error) {
	end, err := Skip(b, at)
	if err != nil {
		return 0, value, err
	}
	key, ok := Uint(b[at:end])
	if !ok {
		key = otherKey
	}
	after, err := Skip(b, end)
	return key, Span{end, after - end}, err
}
