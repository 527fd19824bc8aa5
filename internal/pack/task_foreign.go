package pack

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/foreign"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// foreign makes the content of a value that is in a format of its rule what is sealed. Of a value in none it changes nothing. left
// says why the value must stay as it is.
func (t *Seal) foreign(s *subject, rule *policy.Rule) (left store.Reason) {
	content, f, err := foreign.Take(nil, rule.Formats, s.raw, t.Sealer.MaxRaw())
	if err != nil {
		return ""
	}
	switch {
	case rule.ToPlain:
		s.recoded = true
	case s.old.IsForeign():
		s.as = s.old.Foreign
	default:
		level, exact := foreign.LevelOf(f, s.raw, content, t.Sealer.Engine())
		s.as, s.recoded = cinch.Foreign{Format: uint8(f)}, !exact
		if exact {
			s.as.Level = uint8(level)
		}
	}
	if s.recoded && !t.AllowRecode {
		return OtherBytes
	}
	s.content = content
	return ""
}

// makesPlain reports that the content of a library's value that is sealed already is what clients are to get.
func (t *Seal) makesPlain(db string, v *store.Value, old cinch.Header) bool {
	if !t.AllowRecode {
		return false
	}
	rule := t.rule(db, v, old.RawLen)
	return rule != nil && rule.ToPlain
}

// verifyForeign opens an envelope as a client gets it: as it was, or, if it is another encoding, one that its library opens.
func (t *Seal) verifyForeign(sealed []byte, s *subject) error {
	value, err := t.Sealer.Open(nil, sealed)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if !s.recoded {
		if !bytes.Equal(value, s.raw) {
			return ErrMismatch
		}
		return nil
	}
	content, err := foreign.Open(nil, foreign.Format(s.as.Format), value, t.Sealer.MaxOpen())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if !bytes.Equal(content, s.content) {
		return ErrMismatch
	}
	return nil
}
