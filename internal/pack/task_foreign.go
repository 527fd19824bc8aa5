package pack

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/foreign"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// foreign makes the content of a value that is in a format of its rule what is sealed. Of a value in none it changes nothing. left
// says why the value must stay as it is.
func (t *Seal) foreign(s *subject, rule *policy.Rule) (left store.Reason) {
	content, f, ok := t.contentOf(s, rule)
	if !ok {
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

// contentOf is what a library has compressed into a value. What is sealed as it is under a rule to plain is the client's own.
func (t *Seal) contentOf(s *subject, rule *policy.Rule) (content []byte, f foreign.Format, ok bool) {
	switch {
	case s.old.IsForeign():
		content, err := t.Sealer.OpenContent(nil, s.value.Stored)
		return content, foreign.Format(s.old.Foreign.Format), err == nil
	case s.old.Len > 0 && rule.ToPlain:
		return nil, 0, false
	}
	content, f, err := t.take(rule.Formats, s.raw)
	return content, f, err == nil
}

// take opens a value that is in one of the formats, as far as a gateway would.
func (t *Seal) take(formats []foreign.Format, value []byte) (content []byte, f foreign.Format, err error) {
	return foreign.Take(nil, formats, value, foreign.Room(len(value), t.Sealer.MaxRaw()))
}

// uncovered judges a value for which no rule is, say for its size: it may be one of a library's still, whose content clients get.
func (t *Seal) uncovered(db string, s *subject) Verdict {
	formats := t.Policy.ToPlain(db, s.value.Key, s.value.Type)
	if formats == nil || s.old.Len > 0 {
		return Verdict{Left: NoRule}
	}
	content, _, err := t.take(formats, s.raw)
	if err != nil {
		return Verdict{Left: NoRule}
	}
	if !t.AllowRecode {
		return Verdict{Left: OtherBytes}
	}
	s.content = content
	return t.bare(s)
}

// bare puts the content in the place of a library's value, where sealing it is worth nothing.
func (t *Seal) bare(s *subject) Verdict {
	return Verdict{Replace: true, Recoded: true, New: t.Sealer.Seal(nil, s.content, codec.Setting{}, nil)}
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
