package pack

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// foreign prepares to compress the content of a value that is in one of the rule's formats. It changes nothing for
// other values. left is the reason why the value must stay unchanged, or "".
func (t *Seal) foreign(s *subject, rule *policy.Rule) (left store.Reason) {
	content, f, err := t.contentOf(s, rule.Formats, rule.ToPlain)
	switch {
	case rule.ToPlain && errors.Is(err, clientformat.ErrTooLarge):
		return OpensTooLong
	case err != nil:
		return ""
	case rule.ToPlain:
		s.recoded = true
	case s.old.IsForeign():
		s.as = s.old.Foreign
	default:
		level, exact := clientformat.LevelOf(f, s.raw, content, t.Sealer.Engine())
		s.as, s.recoded = envelope.Foreign{Format: uint8(f)}, !exact
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

// contentOf returns the content of a value that a library has compressed, from the value or from its envelope.
// Under a rule with to: plain, an envelope without a format holds a plain value, which has none.
func (t *Seal) contentOf(s *subject, formats []clientformat.Format, toPlain bool) (content []byte, f clientformat.Format, err error) {
	switch {
	case s.old.IsForeign():
		content, err := t.Sealer.OpenContent(nil, s.value.Stored)
		return content, clientformat.Format(s.old.Foreign.Format), err
	case s.old.Len > 0 && toPlain:
		return nil, 0, clientformat.ErrNone
	}
	return t.openForeign(formats, s.raw)
}

// openForeign decompresses a value in one of the formats, within a gateway's limits.
func (t *Seal) openForeign(formats []clientformat.Format, value []byte) (content []byte, f clientformat.Format, err error) {
	return clientformat.OpenAny(nil, formats, value, clientformat.MaxContentLen(len(value), t.Sealer.MaxRaw()))
}

// decideUncovered decides about a value that no rule covers, for example because of its size. Clients may still get
// the content of a library's value there, since to: plain applies to all sizes.
func (t *Seal) decideUncovered(db string, s *subject) Verdict {
	formats := t.Policy.ToPlain(db, s.value.Key, s.value.Type)
	if formats == nil {
		return Verdict{Skip: NoRule}
	}
	content, _, err := t.contentOf(s, formats, true)
	switch {
	case errors.Is(err, clientformat.ErrTooLarge):
		return Verdict{Skip: OpensTooLong}
	case err != nil:
		return Verdict{Skip: NoRule}
	case !t.AllowRecode:
		return Verdict{Skip: OtherBytes}
	}
	return Verdict{Replace: true, Recoded: true, New: plainForm(t.Sealer, content, formats)}
}

// plainForm returns the uncompressed form of a value that is not worth compressing. formats are those of a rule
// with to: plain. A value that itself looks like a library's, such as a cached .gz file, is wrapped; otherwise
// gateways, and the next run, would decompress it once more.
func plainForm(s *envelope.Sealer, value []byte, formats []clientformat.Format) []byte {
	if envelope.IsSealed(value) || looksForeign(s, value, formats) {
		return s.Escape(nil, value)
	}
	return value
}

// looksForeign reports whether gateways may mistake a value for one that a library has compressed.
func looksForeign(s *envelope.Sealer, value []byte, formats []clientformat.Format) bool {
	return clientformat.MayOpen(formats, value, clientformat.MaxContentLen(len(value), s.MaxRaw()))
}

// toPlain returns the formats of values whose content clients get under the rule.
func toPlain(rule *policy.Rule) []clientformat.Format {
	if rule.ToPlain {
		return rule.Formats
	}
	return nil
}

// verifyForeign opens an envelope as a client gets it. The result must equal the old value or, if recoded, be
// a value that its library opens to the same content.
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
	content, err := clientformat.Open(nil, clientformat.Format(s.as.Format), value, t.Sealer.MaxOpen())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if !bytes.Equal(content, s.content) {
		return ErrMismatch
	}
	return nil
}
