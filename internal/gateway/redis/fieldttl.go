package redis

import (
	"strconv"
	"strings"
)

// The fields of a hash may expire since Redis 7.4 and Valkey 9, and HSET, with which a value is put
// back, ends that. So whoever puts one back looks first, and sets the time again in the same step:
//
//	HPEXPIRETIME key FIELDS 1 field
//	HSET key field value
//	HPEXPIREAT key time FIELDS 1 field   where there was a time
//
// HSETEX … KEEPTTL, which only newer servers have, would do the same for a user with the right to it.

// maxAskedFields is how many fields one request asks about.
const maxAskedFields = 1000

// learnExpiries finds out when the fields among the parts expire. They are watched, so that it stays
// true until they have been put back.
func (s *session) learnExpiries(found *sealedParts) error {
	for parts := found.parts; len(parts) > 0; {
		n := sameHash(parts)
		if parts[0].field != nil && !s.units.endless {
			if err := s.learnExpiriesOf(found, parts[:n]); err != nil {
				return err
			}
		}
		parts = parts[n:]
	}
	return nil
}

// sameHash is how many of the parts, which are some, belong to the hash of the first.
func sameHash(parts []part) (n int) {
	for n < len(parts) && n < maxAskedFields && string(parts[n].key) == string(parts[0].key) {
		n++
	}
	return n
}

func (s *session) learnExpiriesOf(found *sealedParts, parts []part) error {
	if s.tracking { // it would count as read
		s.learnExpiriesBeside(found, parts)
		return nil
	}
	o, err := s.askBytes(expiryQuestion(parts)...)
	if err != nil {
		return err
	}
	switch {
	case isUnknownCommand(o.answer.text):
		s.units.endless = true
	case isNoRight(o.answer.text):
		s.learnExpiriesBeside(found, parts)
	case o.answer.isError():
		found.hidden(o.answer.text, true)
	default:
		setExpiries(parts, o.answer.list)
	}
	return nil
}

// learnExpiriesBeside asks on the second connection, or by the gateway's own user.
func (s *session) learnExpiriesBeside(found *sealedParts, parts []part) {
	p, end := s.newProber()
	defer end()
	words := expiryQuestion(parts)
	question := make([]any, len(words))
	for i, w := range words {
		question[i] = w
	}
	reply, err := p.ask(question...)
	switch list, _ := reply.([]any); {
	case err == nil:
		times := make([][]byte, len(list))
		for i := range list {
			n, _ := list[i].(int64)
			times[i] = strconv.AppendInt(nil, n, 10)
		}
		setExpiries(parts, times)
	case isUnknownCommand(err.Error()):
		s.units.endless = true
	default:
		p.hidden(err)
		found.hidden(p.found.unseen, true)
	}
}

func expiryQuestion(parts []part) [][]byte {
	words := append(make([][]byte, 0, 4+len(parts)), []byte("HPEXPIRETIME"), parts[0].key, []byte("FIELDS"), itoa(len(parts)))
	for i := range parts {
		words = append(words, parts[i].field)
	}
	return words
}

// setExpiries takes the server's answer: for each field a time, or -1 for none and -2 for no such field.
func setExpiries(parts []part, times [][]byte) {
	for i := range parts {
		if i < len(times) && len(times[i]) > 0 && times[i][0] > '0' { // -1 begins before it
			parts[i].expires = times[i]
		}
	}
}

// keep is the request that sets the part's time again after it has been put back, nil for none.
func (p *part) keep() [][]byte {
	if p.expires == nil {
		return nil
	}
	return [][]byte{[]byte("HPEXPIREAT"), p.key, p.expires, []byte("FIELDS"), []byte("1"), p.field}
}

// isUnknownCommand matches the server's refusal of a command that it does not have.
func isUnknownCommand(text string) bool {
	return strings.Contains(strings.ToLower(text), "unknown command")
}
