package redis

import "github.com/cinch-layer/cinch/internal/wire/resp"

// noScript is the answer to EVALSHA where its text is needed and not known here: what begins so makes
// clients load the script again, or send EVAL.
const noScript = "NOSCRIPT No matching script at this gateway, which needs its text inside MULTI or WATCH, where the keys may be sealed. Please load it again or use EVAL, or exclude the keys."

// loaded is what becomes of the answer to SCRIPT EXISTS: only scripts that are known here are said
// to exist.
func (s *session) loaded(shas [][]byte) *op {
	o := &op{mask: make([]bool, len(shas)), size: len(shas)}
	for i, sha := range shas {
		_, o.mask[i] = s.g.bodies.find(sha)
	}
	return o
}

// carryLoaded carries the answer to SCRIPT EXISTS: a list of 0 and 1.
func (p *replyPump) carryLoaded(known []bool) error {
	line, h, err := p.peek()
	if err != nil || h.Kind != resp.Array || h.N != int64(len(known)) {
		if err == nil {
			err = p.copy(shapeNone, nil)
		}
		return err
	}
	if err := p.emitLine(line); err != nil {
		return err
	}
	for _, here := range known {
		if here {
			err = p.copy(shapeNone, nil)
		} else if err = p.skip(); err == nil {
			err = p.emit(resp.AppendInt(nil, 0))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
