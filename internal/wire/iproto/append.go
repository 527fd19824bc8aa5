package iproto

import (
	"encoding/binary"

	"github.com/tinylib/msgp/msgp"
)

// PrefixLen is the length in bytes of the frame length prefixes that drivers and servers write.
const PrefixLen = 5

// BeginFrame appends room for the length prefix of a frame. When the rest has been appended, FinishFrame fills it
// in; its argument start is len(dst) before BeginFrame.
func BeginFrame(dst []byte) []byte { return append(dst, 0xce, 0, 0, 0, 0) }

// FinishFrame completes the frame that begins at start.
func FinishFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-PrefixLen))
	return dst
}

// AppendHead appends the head of a string or binary of n bytes, in the shortest form, as the server writes
// it.
func AppendHead(dst []byte, kind Kind, n int) []byte {
	if kind == Binary {
		return msgp.AppendBytesHeader(dst, uint32(n))
	}
	switch {
	case n < 32:
		return append(dst, 0xa0|byte(n))
	case n < 1<<8:
		return append(dst, 0xd9, byte(n))
	case n < 1<<16:
		return append(dst, 0xda, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
}

// AppendStamped appends the header of frame with its schema version set to version.
func AppendStamped(dst, frame []byte, h *Header, version uint64) []byte {
	if h.Version.Len > 0 {
		dst = append(dst, frame[:h.Version.At]...)
		dst = msgp.AppendUint64(dst, version)
		return append(dst, frame[h.Version.End():h.Map.End()]...)
	}
	dst = msgp.AppendMapHeader(dst, uint32(h.Count+1))
	dst = append(dst, frame[h.Entries:h.Map.End()]...)
	dst = append(dst, keySchemaVersion)
	return msgp.AppendUint64(dst, version)
}

// BeginCall appends the beginning of a frame that calls a stored function with args arguments. The caller appends
// these and completes the frame with FinishFrame. A sync above 32 bits takes nine bytes in the frame and in its
// reply. A schema or stream of 0 is left out.
func BeginCall(dst []byte, sync, schema, stream uint64, function string, args int) []byte {
	entries := byte(2)
	for _, n := range []uint64{schema, stream} {
		if n != 0 {
			entries++
		}
	}
	dst = append(BeginFrame(dst), 0x80|entries, keyType, byte(Call), keySync)
	dst = msgp.AppendUint64(dst, sync)
	if schema != 0 {
		dst = msgp.AppendUint64(append(dst, keySchemaVersion), schema)
	}
	if stream != 0 {
		dst = msgp.AppendUint64(append(dst, keyStream), stream)
	}
	dst = append(dst, 0x82, keyFunction)
	dst = msgp.AppendString(dst, function)
	return msgp.AppendArrayHeader(append(dst, keyTuple), uint32(args))
}

// AppendPing appends a PING frame.
func AppendPing(dst []byte, sync uint64) []byte {
	start := len(dst)
	dst = append(BeginFrame(dst), 0x82, keyType, byte(Ping), keySync)
	return FinishFrame(msgp.AppendUint64(dst, sync), start)
}

// gatewayMark is the key in the body of a PING that asks whether a Cinch gateway answers, and the first
// string of the reply.
const gatewayMark = "cinch.gateway"

// GatewayQuestion is the body of a PING that asks whether a gateway answers: {gatewayMark: true}. Servers, and older
// gateways, ignore the body of a PING, and answer it like any other.
var GatewayQuestion = msgp.AppendBool(msgp.AppendString([]byte{0x81}, gatewayMark), true)

// AppendGateway appends a gateway's reply to GatewayQuestion. It holds three strings: gatewayMark, the
// gateway's name, and the URL of the server behind it.
func AppendGateway(dst []byte, sync, schema uint64, name, upstream string) []byte {
	start := len(dst)
	dst = msgp.AppendUint64(append(BeginFrame(dst), 0x83, keyType, byte(OK), keySync), sync)
	dst = msgp.AppendUint64(append(dst, keySchemaVersion), schema)
	dst = append(dst, 0x81, keyData, 0x93)
	for _, s := range []string{gatewayMark, name, upstream} {
		dst = msgp.AppendString(dst, s)
	}
	return FinishFrame(dst, start)
}

// ParseGateway reads the strings of a reply to GatewayQuestion. ok is false for the reply of a server.
func ParseGateway(data []any) (name, upstream string, ok bool) {
	if len(data) != 3 || data[0] != gatewayMark {
		return "", "", false
	}
	name, _ = data[1].(string)
	upstream, _ = data[2].(string)
	return name, upstream, true
}

// AppendEvent appends a frame that tells a watcher that the event name has the value true.
func AppendEvent(dst []byte, schema uint64, name string) []byte {
	start := len(dst)
	dst = append(BeginFrame(dst), 0x83, keyType, byte(Event), keySync, 0, keySchemaVersion, 0xce)
	dst = binary.BigEndian.AppendUint32(dst, uint32(schema))
	dst = msgp.AppendString(append(dst, 0x82, keyEvent), name)
	return FinishFrame(msgp.AppendBool(append(dst, keyEventData), true), start)
}

// AppendError appends an error reply to the request with that sync. code is one of the error numbers, without
// ErrorFlag.
func AppendError(dst []byte, sync, schema uint64, code Type, text string) []byte {
	start := len(dst)
	dst = BeginFrame(dst)
	dst = append(dst, 0x83, keyType)
	dst = msgp.AppendUint64(dst, uint64(ErrorFlag|code))
	dst = append(dst, keySync, 0xcf)
	dst = binary.BigEndian.AppendUint64(dst, sync)
	dst = append(dst, keySchemaVersion, 0xce)
	dst = binary.BigEndian.AppendUint32(dst, uint32(schema))
	dst = append(dst, 0x81, keyError)
	dst = msgp.AppendString(dst, text)
	return FinishFrame(dst, start)
}

// AppendUints appends an array of unsigned integers.
func AppendUints(dst []byte, list []uint64) []byte {
	dst = msgp.AppendArrayHeader(dst, uint32(len(list)))
	for _, n := range list {
		dst = msgp.AppendUint64(dst, n)
	}
	return dst
}

// AppendSelect appends a frame that reads up to limit tuples of a space whose key in index 0 begins with key.
func AppendSelect(dst []byte, sync, space, key, limit uint64) []byte {
	start := len(dst)
	dst = append(BeginFrame(dst), 0x82, keyType, byte(Select), keySync)
	dst = msgp.AppendUint64(dst, sync)
	dst = msgp.AppendUint64(append(dst, 0x85, keySpaceID), space)
	dst = append(dst, keyIndexID, 0, keyLimit)
	dst = msgp.AppendUint64(dst, limit)
	dst = append(dst, keyOffset, 0, keyKey, 0x91)
	return FinishFrame(msgp.AppendUint64(dst, key), start)
}
