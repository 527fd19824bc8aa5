package history

import (
	"encoding/binary"
	"hash/crc32"
)

// Writer takes one message after another apart, with what it remembers of those before. A [Reader] must get all of them, in
// their order. The zero value is ready for use. It is not safe for concurrent use.
type Writer struct {
	encoder
	begun bool
}

// Append appends src taken apart to dst, which must not overlap src. It cannot fail.
func (w *Writer) Append(dst, src []byte) []byte {
	form := byte(formNext)
	if !w.begun {
		w.begin()
		form = formBegin
	}
	if len(src) > MaxBytes || !w.message(src) {
		return append(append(dst, formPlain), src...)
	}
	w.begun = true
	coded := w.end()
	dst = append(dst, form)
	dst = binary.AppendUvarint(dst, uint64(len(src)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(src, castagnoli))
	dst = binary.AppendUvarint(dst, uint64(len(coded)))
	dst = append(dst, coded...)
	return append(dst, w.text...)
}
