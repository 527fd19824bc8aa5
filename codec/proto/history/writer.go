package history

import (
	"encoding/binary"
	"hash/crc32"
)

// Writer splits one message after another, using what it remembers of the previous ones. A [Reader] must get
// all of them, in the same order. The zero value is ready for use. It is not safe for concurrent use.
type Writer struct {
	encoder
	begun    bool
	messages int // since begin
}

const (
	minApart     = 16      // minimum length in bytes of a message to split
	keptBytes    = 4 << 20 // length of a message up to which buffers are kept
	restartAfter = 1 << 12 // minimum number of messages before a full model is reset
)

// Append appends src in split form to dst, which must not overlap src. It cannot fail: a message that is short,
// longer than [MaxBytes] or not of Protocol Buffers is appended plain, after one byte.
func (w *Writer) Append(dst, src []byte) []byte {
	form := byte(formNext)
	if !w.begun {
		w.begin()
		form = formBegin
	}
	if len(src) < minApart || len(src) > MaxBytes || !w.message(src) {
		return append(append(dst, formPlain), src...)
	}
	w.begun = true
	dst = w.appendMessage(append(dst, form), src)
	w.rest(len(src))
	return dst
}

func (w *Writer) appendMessage(dst, src []byte) []byte {
	coded := w.end()
	dst = binary.AppendUvarint(dst, uint64(len(src)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(src, castagnoli))
	dst = binary.AppendUvarint(dst, uint64(len(coded)))
	dst = append(dst, coded...)
	return append(dst, w.text...)
}

// rest releases the buffers of a long message, and resets the model if it has been full for long.
func (w *Writer) rest(size int) {
	if size > keptBytes {
		w.coder.out, w.text, w.fields, w.counts, w.open, w.bases, w.chain = nil, nil, nil, nil, nil, nil, nil
	}
	if w.messages++; w.messages >= restartAfter && w.isFull() {
		w.begun, w.messages = false, 0
	}
}
