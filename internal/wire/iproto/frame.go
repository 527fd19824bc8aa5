package iproto

import "fmt"

// MaxFrame is the longest frame in bytes that servers take, without its length in front.
const MaxFrame = 2 << 30

// ErrTooLarge is a frame above MaxFrame.
var ErrTooLarge = fmt.Errorf("%w: the frame is too large", ErrMalformed)

// MaxPrefix is the longest form in bytes of the length in front of a frame.
const MaxPrefix = 9

// Prefix reads the length in front of a frame: n bytes follow it, and it has size bytes itself.
// size is 0 when more of b is needed.
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

// Header is what a frame's header says. Spans are places in the frame.
type Header struct {
	Type    Type
	Sync    uint64
	Stream  uint64
	Schema  uint64 // version, 0: none given, or none that the server would check
	Map     Span   // all of the header
	Count   int    // of its entries
	Entries int    // where they begin
	Version Span   // the schema version's value; no length: not there
	SyncAt  Span   // the sync's
}

// Parse reads the header at the start of a frame, whose length has been cut off. As the server
// does, it skips keys that it does not know, and takes the last of several.
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

// Body says where the values are that a gateway looks at. A span without length is one that
// is not there. Of several with one key the last counts, as it does for the server.
type Body struct {
	At, End int // of the body, without what may follow

	SpaceID, SpaceName Span
	IndexID, IndexName Span
	IndexBase          Span
	Key, Tuple, Ops    Span
	Function, Expr     Span
	SQLText, StmtID    Span
	Data, Error        Span
	Features           Span
	User               Span
	Event              Span // the name of what is watched
}

// Parse finds the parts of the body at frame[at:]. A frame that ends there has an empty one.
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

// otherKey stands for keys that are no small integers.
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
