package compute

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// These commands read a part or a property of a value. For an envelope the server would answer about the
// stored bytes, so the gateway decompresses the value and answers itself. The specification is what Redis 7.0
// does, down to which of several wrong arguments it reports and which it ignores when the key is missing.

// Error texts that several commands of Redis share.
const (
	errNotInteger = "ERR value is not an integer or out of range"
	errSyntax     = "ERR syntax error"
	errBitOffset  = "ERR bit offset is not an integer or out of range"
)

// Answer appends to dst the RESP reply of Redis to the command args (args[0] is the name, in any letter case)
// for a string value, or for a hash field's value. exists is false if there is no such key or field. All
// replies have the same form in RESP2 and RESP3. Answer allocates only to grow dst and keeps nothing of its
// arguments.
//
// It handles STRLEN, HSTRLEN, GETRANGE, SUBSTR, GETBIT, BITCOUNT, BITPOS, BITFIELD_RO and DIGEST (of a value
// that exists). The limit on bit offsets is that of a server with the default proto-max-bulk-len.
func Answer(dst []byte, args [][]byte, value []byte, exists bool) []byte {
	if !exists {
		value = nil
	}
	var buf [16]byte
	switch name := lowerName(&buf, args[0]); string(name) {
	case "strlen":
		if len(args) != 2 {
			return appendArity(dst, name)
		}
		return resp.AppendInt(dst, int64(len(value)))
	case "hstrlen":
		if len(args) != 3 {
			return appendArity(dst, name)
		}
		return resp.AppendInt(dst, int64(len(value)))
	case "getrange", "substr":
		if len(args) != 4 {
			return appendArity(dst, name)
		}
		return computeRange(dst, args, value)
	case "getbit":
		if len(args) != 3 {
			return appendArity(dst, name)
		}
		return computeGetBit(dst, args, value)
	case "bitcount":
		if len(args) < 2 {
			return appendArity(dst, name)
		}
		return computeBitCount(dst, args, value, exists)
	case "bitpos":
		if len(args) < 3 {
			return appendArity(dst, name)
		}
		return computeBitPos(dst, args, value, exists)
	case "digest":
		if len(args) != 2 {
			return appendArity(dst, name)
		}
		return resp.AppendBulk(dst, fmt.Appendf(nil, "%016x", xxh3.Hash(value)))
	case "bitfield_ro":
		if len(args) < 2 {
			return appendArity(dst, name)
		}
		return computeBitField(dst, args, value)
	}
	return resp.AppendError(dst, "ERR cinch: the gateway can't answer this command")
}

// computeRange answers GETRANGE key start end: both ends are included, and for a missing key it checks both
// numbers before it returns an empty string.
func computeRange(dst []byte, args [][]byte, value []byte) []byte {
	start, ok := resp.ParseInt(args[2])
	if !ok {
		return resp.AppendError(dst, errNotInteger)
	}
	end, ok := resp.ParseInt(args[3])
	if !ok {
		return resp.AppendError(dst, errNotInteger)
	}
	start, end, ok = clamp(start, end, int64(len(value)))
	if !ok {
		return resp.AppendBulk(dst, "")
	}
	return resp.AppendBulk(dst, value[start:end+1])
}

// clamp resolves negative positions, which count from the end, and cuts the range [start, end] to n
// positions. It reports false if the range is empty.
func clamp(start, end, n int64) (int64, int64, bool) {
	if start < 0 && end < 0 && start > end {
		return 0, 0, false
	}
	start, end = resolve(start, n), min(resolve(end, n), n-1)
	return start, end, start <= end
}

// resolve converts a position that counts from the end into one from the start.
func resolve(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return max(i, 0)
}

func appendArity(dst, name []byte) []byte {
	dst = append(dst, "-ERR wrong number of arguments for '"...)
	dst = append(dst, name...)
	return append(dst, "' command\r\n"...)
}

// lowerName returns name in lower case, in buf, or nil if it is longer than any command here.
func lowerName(buf *[16]byte, name []byte) []byte {
	if len(name) > len(buf) {
		return nil
	}
	for i, c := range name {
		buf[i] = resp.Lower(c)
	}
	return buf[:len(name)]
}

// IsLength reports whether the command is answered from an envelope's header.
func IsLength(args [][]byte) bool {
	return resp.IsWord(args[0], "strlen") || resp.IsWord(args[0], "hstrlen")
}

// MayMakeMagic reports whether a command may leave a value that begins with the magic and did not before.
func MayMakeMagic(args [][]byte) bool {
	switch {
	case resp.IsWord(args[0], "append"):
		for n := range len(envelope.Magic) {
			if bytes.HasPrefix(args[2], []byte(envelope.Magic[n:])) {
				return true
			}
		}
		return false
	case resp.IsWord(args[0], "setrange"):
		at, ok := resp.ParseInt(args[2])
		return ok && at < int64(len(envelope.Magic)) && bytes.ContainsFunc(args[3][:min(len(args[3]), len(envelope.Magic))], func(r rune) bool { return r >= 0x80 })
	}
	return true
}

// CarriesMagic reports whether one of the arguments contains the magic.
func CarriesMagic(args [][]byte) bool {
	return slices.ContainsFunc(args, func(a []byte) bool { return bytes.Contains(a, []byte(envelope.Magic)) })
}

// PartOfAny reports whether b is a part of an element of list.
func PartOfAny(list [][]byte, b []byte) bool {
	return slices.ContainsFunc(list, func(x []byte) bool { return bytes.Contains(x, b) })
}
