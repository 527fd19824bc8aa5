package iproto

import "fmt"

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
		if s := b.part(key); s != nil {
			*s = value
		}
		at = value.End()
	}
	b.End = at
	return nil
}

func (b *Body) part(key uint64) *Span {
	switch key {
	case keySpaceID:
		return &b.SpaceID
	case keySpaceName:
		return &b.SpaceName
	case keyIndexID:
		return &b.IndexID
	case keyIndexName:
		return &b.IndexName
	case keyIndexBase:
		return &b.IndexBase
	case keyKey:
		return &b.Key
	case keyTuple:
		return &b.Tuple
	case keyOps:
		return &b.Ops
	case keyFunction:
		return &b.Function
	case keyExpr:
		return &b.Expr
	case keySQLText:
		return &b.SQLText
	case keyStmtID:
		return &b.StmtID
	case keyData:
		return &b.Data
	case keyError:
		return &b.Error
	case keyFeatures:
		return &b.Features
	case keyUser:
		return &b.User
	case keyEvent:
		return &b.Event
	}
	return nil
}
