package redis

import "github.com/cinch-layer/cinch/internal/gateway/redis/lua"

// Commands that compare the stored value with one of their own, or its digest, and then set or delete
// it: SET with IFEQ, IFNE, IFDEQ or IFDNE, DELEX, DELIFEQ. The server compares what is stored, so a
// sealed value is put back for that, in one step with the command. Where the comparison fails
// the value is still there afterwards, and the envelope takes its place again.

// comparedSet is the row of a SET that compares. What it answers with GET has been put back.
var comparedSet = &command{name: "set", arity: -3, strategy: compared, keys: keyRange{first: 1, last: 1, step: 1}}

// comparisons are the options that do.
var comparisons = []option{{"ifeq", 1}, {"ifne", 1}, {"ifdeq", 1}, {"ifdne", 1}}

func isComparison(word []byte) bool {
	_, n := optionOf(comparisons, word)
	return n > 0
}

func (s *session) handleCompared(r *request) error {
	keys := r.args[1:2]
	if s.excluded(keys) || r.cmd.name == "delex" && len(r.args) == 2 { // deletes whatever it is
		return s.forward(r, entry{})
	}
	switch {
	case s.lua.denied || (s.tracking || s.reads) && !s.tx.open:
		return s.runUnit(r, keys)
	case s.tx.open:
		return s.guardInTransaction(r, lua.Compare, keys)
	case s.watched:
		return s.guard(r, lua.CompareWatched, keys)
	}
	return s.guard(r, lua.Compare, keys)
}

// sendRestored has the envelopes of values that were put back take their places again, where they are
// still there after a command that compared them. A server that compares knows IFEQ.
func (s *session) sendRestored(parts []part) error {
	for i := range parts {
		if _, err := s.sendCapture(parts[i].restored()...); err != nil {
			return err
		}
	}
	return nil
}

// compareBeside runs a comparison of a user who may not open transactions, for which what was found has
// been put back.
func (s *session) compareBeside(r *request, found *sealedParts) error {
	if err := s.forward(r, entry{}); err != nil {
		return err
	}
	for i := range found.parts {
		if err := s.sendHidden(found.parts[i].restored()); err != nil {
			return err
		}
	}
	return nil
}

// restored is the request that has the part's envelope take its place where its value is.
func (p *part) restored() [][]byte {
	return append(p.put(p.Sealed)[:3:3], []byte("IFEQ"), p.Value, []byte("KEEPTTL"))
}
