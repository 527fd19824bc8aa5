package lua

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/cinch-layer/cinch/envelope"
)

// Known is an envelope and its value.
type Known struct{ Sealed, Value []byte }

// Call returns a call of a script with the arguments a, b and then args.
func Call(verb, script string, keys [][]byte, a, b []byte, args [][]byte) [][]byte {
	call := make([][]byte, 0, 5+len(keys)+len(args))
	call = append(call, []byte(verb), []byte(script), number(len(keys)))
	call = append(call, keys...)
	call = append(call, a, b)
	return append(call, args...)
}

// CallPeek returns a call of Peek or PeekField for the read args. most limits the bytes returned of an
// envelope; 0: all.
func CallPeek(verb, script string, key []byte, most int, args [][]byte) [][]byte {
	return Call(verb, script, [][]byte{key}, []byte(envelope.Magic), number(most-1), args)
}

// CallGuard returns a call of Guard or a similar script.
func CallGuard(script string, keys [][]byte, known []Known, args [][]byte) [][]byte {
	rest := appendKnown(make([][]byte, 0, 2*len(known)+len(args)), known)
	return Call("EVAL", script, keys, []byte(envelope.Magic), number(len(known)), append(rest, args...))
}

// CallSort returns a call of Sort or SortWatched. by and store are nil if SORT has no such option. fetches
// says for each GET whether it fetches a value. args are the arguments of SORT. look, used with store only,
// are those of a SORT that fetches all values that args may store.
func CallSort(script string, keys [][]byte, by, store []byte, fetches []bool, known []Known, look, args [][]byte) [][]byte {
	gets := make([]byte, len(fetches))
	for i, fetches := range fetches {
		if gets[i] = '0'; fetches {
			gets[i] = '1'
		}
	}
	if store != nil {
		store = append([]byte("k"), store...)
	} else {
		look = nil
	}
	rest := append(appendKnown([][]byte{store, gets, number(len(known))}, known), number(len(look)))
	return Call("EVAL", script, keys, []byte(envelope.Magic), by, slices.Concat(rest, look, args))
}

// CallEscape returns a call of Escape. plain are bytes that contain the magic and are not envelopes; if there
// are none, no hash is checked.
func CallEscape(keys, plain [][]byte) [][]byte {
	all := append([][]byte(nil), keys...)
	if len(plain) > 0 {
		all = append(all, keys...)
	}
	return Call("EVAL", Escape, all, []byte(envelope.Magic), number(len(keys)), plain)
}

// CallInflate returns a call of Inflate. A key may be in both strings and hashes if its type is unknown.
func CallInflate(strings, hashes [][]byte, known []Known) [][]byte {
	call := [][]byte{[]byte("EVAL"), []byte(Inflate), number(len(strings) + len(hashes))}
	call = append(append(call, strings...), hashes...)
	return appendKnown(append(call, number(len(strings))), known)
}

// CallSealedFields returns a call of SealedFields, which lists at most most+1 fields.
func CallSealedFields(key []byte, most int) [][]byte {
	return Call("EVAL", SealedFields, [][]byte{key}, []byte(envelope.Magic), number(2*most), nil)
}

// CallComposed returns a call of a client's script that Compose has extended. args are the arguments behind
// the script. plain are values that begin with the magic and are not envelopes. hashes says whether one of the
// keys may be a hash with envelopes, clear whether values that the user may not read are known to be uncompressed.
func CallComposed(verb string, composed []byte, args, plain [][]byte, hashes, clear bool) [][]byte {
	call := append([][]byte{[]byte(verb), composed}, args...)
	call = append(call, []byte(envelope.Magic))
	call = append(call, plain...)
	return append(call, number(len(plain)), flag(hashes), flag(clear))
}

// Compose inserts the prologue before a script, on the same line so that line numbers in errors stay right,
// and behind its shebang line if there is one.
func Compose(body []byte) []byte {
	at := 0
	if bytes.HasPrefix(body, []byte("#!")) {
		if at = bytes.IndexByte(body, '\n') + 1; at == 0 {
			at = len(body)
		}
	}
	text := make([]byte, 0, len(body)+len(prologue))
	text = append(text, body[:at]...)
	text = append(text, prologue...)
	return append(text, body[at:]...)
}

// Name returns the name of a script in Redis: its SHA-1 in hex.
func Name(script []byte) string {
	sum := sha1.Sum(script)
	return hex.EncodeToString(sum[:])
}

func appendKnown(dst [][]byte, known []Known) [][]byte {
	for _, k := range known {
		dst = append(dst, k.Sealed, k.Value)
	}
	return dst
}

func number(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

func flag(on bool) []byte {
	if on {
		return []byte("1")
	}
	return []byte("0")
}
