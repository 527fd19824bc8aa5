package redis

import (
	"bytes"
	"hash/maphash"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Forms in which answers are compared.
const (
	plain     uint8 = iota // byte by byte
	unordered              // a set of elements
	pairs                  // a set of pairs
	scripted               // of a script, perhaps from a set or a clock: in any order, without times to live
)

// seed of the digests, which are compared only within one process.
var seed = maphash.MakeSeed()

// answerOf returns the comparable form of a reply.
func answerOf(frame []byte, form uint8) shadow.Answer {
	a := shadow.Answer{Digest: maphash.Bytes(seed, frame)}
	switch frame[0] {
	case resp.Error:
		code, _, _ := bytes.Cut(frame[1:len(frame)-2], []byte(" "))
		return shadow.Answer{Error: string(code)}
	case resp.BulkError:
		_, text, _ := bytes.Cut(frame, crlf)
		code, _, _ := bytes.Cut(text, []byte(" "))
		return shadow.Answer{Error: string(code)}
	}
	h, body := head(frame)
	a.Missing = h.IsNull() || (h.IsAggregate() || h.IsString()) && h.N == 0
	switch {
	case form == scripted:
		a.Digest = digestScripted(frame, nil)
	case form != plain && h.IsAggregate() && h.N > 0:
		each := 1
		if form == pairs {
			each = 2
		}
		a.Digest = digestSet(body, each)
	}
	return a
}

// integerOf returns the value of an integer reply.
func integerOf(frame []byte) (n int64, ok bool) {
	if frame[0] != resp.Integer {
		return 0, false
	}
	return resp.ParseInt(frame[1 : len(frame)-2])
}

// digestScripted adds up the digests of all elements, except numbers that are times to live: those that
// targets returned right after the reply, and those that were extended by ten years.
func digestScripted(frame []byte, found []time.Duration) (sum uint64) {
	for len(frame) > 0 {
		h, body := head(frame)
		n := len(frame) - len(body)
		if h.IsString() && h.N >= 0 {
			n += int(h.N) + 2
		}
		if left, ok := integerOf(frame[:n]); !ok || !isExtended(left) && !isFound(left, found) {
			sum += maphash.Bytes(seed, frame[:n])
		}
		frame = frame[n:]
	}
	return sum
}

// part tells how a command's reply is compared within a transaction's.
type part struct {
	form uint8
	skip bool
}

// digestParts returns a digest of a transaction's reply.
func digestParts(frame []byte, parts []part, found []time.Duration) uint64 {
	h, body := head(frame)
	replies := elements(body, 1)
	if !h.IsAggregate() || len(replies) != len(parts) {
		return maphash.Bytes(seed, frame)
	}
	var all maphash.Hash
	all.SetSeed(seed)
	for i, p := range parts {
		a := answerOf(replies[i], p.form)
		if p.form == scripted && a.Error == "" {
			a.Digest = digestScripted(replies[i], found)
		}
		if p.skip {
			a.Digest = 0
		}
		maphash.WriteComparable(&all, a)
	}
	return all.Sum64()
}

func head(frame []byte) (resp.Head, []byte) {
	i := bytes.Index(frame, crlf)
	h, _ := resp.ParseHead(frame[:i+2]) // frameScanner.scan has parsed it
	return h, frame[i+2:]
}

// digestSet adds up the digests of groups. each is the number of elements in a group.
func digestSet(body []byte, each int) (sum uint64) {
	for _, element := range elements(body, each) {
		sum += maphash.Bytes(seed, element)
	}
	return sum
}

// elements splits the body of an aggregate into groups. each is the number of elements in a group.
func elements(body []byte, each int) (out [][]byte) {
	for len(body) > 0 {
		n := 0
		for range each {
			var f frameScanner
			k, err := f.scan(body[n:])
			if k == 0 || err != nil {
				break
			}
			n += k
		}
		if n == 0 {
			return out
		}
		out, body = append(out, body[:n]), body[n:]
	}
	return out
}

// stringsOf returns the bulk and simple strings of a reply: of a single one, or of an array of them.
func stringsOf(frame []byte) (out [][]byte) {
	h, body := head(frame)
	switch {
	case h.IsAggregate():
		for _, e := range elements(body, 1) {
			out = append(out, stringsOf(e)...)
		}
	case h.IsString() && h.N >= 0:
		out = append(out, body[:h.N])
	case h.Kind == resp.Simple:
		out = append(out, frame[1:len(frame)-2])
	}
	return out
}

// productionErrors holds the codes of errors that are due to production's state at that moment or to the
// client's rights, not to the command. Targets would execute it.
var productionErrors = map[string]bool{
	"NOAUTH": true, "NOPERM": true, // the client's rights
	"LOADING": true, "MASTERDOWN": true, "READONLY": true, "UNBLOCKED": true, // a restart, a failover
	"OOM": true, "MISCONF": true, "NOREPLICAS": true, "BUSY": true, // a shortage
	"CLUSTERDOWN": true, "MOVED": true, "ASK": true, "TRYAGAIN": true, "REDIRECT": true,
}

// productionErrorCode returns the error code of a reply if it is one of productionErrors, otherwise "".
func productionErrorCode(frame []byte) string {
	if frame[0] != resp.Error && frame[0] != resp.BulkError {
		return ""
	}
	if code := answerOf(frame, plain).Error; productionErrors[code] {
		return code
	}
	return ""
}

const productionErrorPrefix = "failed in production by itself: "
