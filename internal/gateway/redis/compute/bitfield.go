package compute

import "github.com/cinch-layer/cinch/internal/wire/resp"

const errBitFieldType = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."

// fieldOp is one operation of BITFIELD.
type fieldOp struct {
	offset int64
	bits   int64
	signed bool
	writes bool
	none   bool // OVERFLOW: affects later writes, has no answer
	next   int  // index of the argument after it
}

// computeBitField answers BITFIELD_RO. The server checks all operations before it answers any, so this parses
// the arguments twice.
func computeBitField(dst []byte, args [][]byte, value []byte) []byte {
	gets, writes, errText := checkBitField(args)
	switch {
	case errText != "":
		return resp.AppendError(dst, errText)
	case writes:
		return resp.AppendError(dst, "ERR BITFIELD_RO only supports the GET subcommand")
	}
	dst = resp.AppendArray(dst, gets)
	for i := 2; i < len(args); {
		op, _ := parseFieldOp(args, i)
		if !op.none {
			dst = resp.AppendInt(dst, readField(value, op))
		}
		i = op.next
	}
	return dst
}

// checkBitField returns the error for the first argument that the server refuses, "" if there is none.
func checkBitField(args [][]byte) (gets int, writes bool, errText string) {
	for i := 2; i < len(args); {
		op, errText := parseFieldOp(args, i)
		if errText != "" {
			return 0, false, errText
		}
		if op.writes {
			writes = true
		} else if !op.none {
			gets++
		}
		i = op.next
	}
	return gets, writes, ""
}

// parseFieldOp parses the operation that starts at args[i]. A keyword with too few arguments behind it is a
// syntax error, as on the server.
func parseFieldOp(args [][]byte, i int) (op fieldOp, errText string) {
	left := len(args) - i - 1
	switch name := args[i]; {
	case resp.IsWord(name, "get") && left >= 2:
		op.next = i + 3
	case (resp.IsWord(name, "set") || resp.IsWord(name, "incrby")) && left >= 3:
		op.next, op.writes = i+4, true
	case resp.IsWord(name, "overflow") && left >= 1:
		return fieldOp{none: true, next: i + 2}, checkOverflow(args[i+1])
	default:
		return op, errSyntax
	}
	var ok bool
	if op.signed, op.bits, ok = parseFieldType(args[i+1]); !ok {
		return op, errBitFieldType
	}
	if op.offset, ok = parseFieldOffset(args[i+2], op.bits); !ok {
		return op, errBitOffset
	}
	if op.writes {
		if _, ok = resp.ParseInt(args[i+3]); !ok {
			return op, errNotInteger
		}
	}
	return op, ""
}

func checkOverflow(arg []byte) string {
	if resp.IsWord(arg, "wrap") || resp.IsWord(arg, "sat") || resp.IsWord(arg, "fail") {
		return ""
	}
	return "ERR Invalid OVERFLOW type specified"
}

// parseFieldType parses "u1" to "u63" and "i1" to "i64".
func parseFieldType(arg []byte) (signed bool, width int64, ok bool) {
	arg = resp.CString(arg)
	if len(arg) == 0 || arg[0] != 'i' && arg[0] != 'u' {
		return false, 0, false
	}
	signed = arg[0] == 'i'
	width, ok = resp.ParseInt(arg[1:])
	if !ok || width < 1 || width > 64 || width > 63 && !signed {
		return false, 0, false
	}
	return signed, width, true
}

// parseFieldOffset parses an offset in bits, or in fields of the given width after "#". The product wraps
// around like the server's.
func parseFieldOffset(arg []byte, width int64) (int64, bool) {
	scale := int64(1)
	if len(arg) > 0 && arg[0] == '#' {
		arg, scale = arg[1:], width
	}
	offset, ok := resp.ParseInt(arg)
	offset *= scale
	return offset, ok && offset >= 0 && offset < maxBitOffset
}

// readField returns the field's bits as a number. Bits after the value are zero.
func readField(value []byte, op fieldOp) int64 {
	var window [9]byte // 64 bits may touch nine bytes
	if from := op.offset >> 3; from < int64(len(value)) {
		copy(window[:], value[from:])
	}
	var u uint64
	for i := op.offset & 7; i < op.offset&7+op.bits; i++ {
		u = u<<1 | uint64(window[i>>3]>>(7-i&7)&1)
	}
	if op.signed {
		shift := 64 - op.bits
		return int64(u) << shift >> shift
	}
	return int64(u)
}

// IsWide reports whether the command is BITFIELD or BITFIELD_RO with a field of more than 53 bits: Lua would
// round it, since its numbers are doubles.
func IsWide(args [][]byte) bool {
	if !resp.IsWord(args[0], "bitfield") && !resp.IsWord(args[0], "bitfield_ro") {
		return false
	}
	for _, a := range args[2:] {
		a = resp.CString(a)
		if len(a) == 3 && (a[0]|0x20 == 'i' || a[0]|0x20 == 'u') && (a[1] == '5' && a[2] > '3' || a[1] >= '6') {
			return true
		}
	}
	return false
}
