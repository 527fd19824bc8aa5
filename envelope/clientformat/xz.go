package clientformat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/crc64"

	"github.com/ulikunitz/xz/lzma"

	"github.com/cinch-layer/cinch/codec"
)

// An xz stream (xz-file-format.txt) as Python's lzma.compress makes it: one block, only LZMA2, and a CRC-64.
//
//	stream header  fd 37 7a 58 5a 00 | 00 04 | CRC-32 of the two(4)
//	block header   02 00 | 21 01 dictionary(1) | 00 00 00 | CRC-32 of these 8(4)
//	block          LZMA2's chunks, zeros up to 4, CRC-64 of the content(8)
//	index          00 01 | length of the block but for the zeros(v) raw length(v) | zeros up to 4 | CRC-32(4)
//	footer         CRC-32 of the next 6(4) | length of the index/4-1(4) | 00 04 | 59 5a
//
// Three numbers determine all of these bytes except the chunks: the size of the dictionary, the length of the block
// and the raw length. So headers, index and footer are built from the numbers and compared with those of a stream.
// Other readers allocate the size in the dictionary's byte, up to 4 GiB. Since no match reaches back farther than the
// raw length, openXZ allocates no larger dictionary than that, apart from a minimum of 4 KiB.
const (
	xzStreamHeader = 12
	xzBlockHeader  = 12
	xzHeaders      = xzStreamHeader + xzBlockHeader
	xzDictionary   = xzStreamHeader + 4 // offset of its byte
	xzFooter       = 12
	xzIndexBytes   = 4    // offset in the footer of the index's length
	xzMostRatio    = 8192 // largest number of raw bytes for one byte; LZMA comes near 7100
	xzChunk        = 64 << 10
	xzMaxDict      = 4 << 20 // when writing, as in django-redis's preset

	xzMostByDefault = 256 << 10
	xzLeastGain     = 32 // content is compressed if LZ4 saves one part in this many
)

var (
	xzMagic      = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	xzFlags      = []byte{0, 4}
	xzPolynomial = crc64.MakeTable(crc64.ECMA)
)

// appendXZHead appends both headers.
func appendXZHead(dst []byte, dictionary byte) []byte {
	dst = appendCRC32(append(dst, xzMagic...), xzFlags...)
	return appendCRC32(dst, 2, 0, 0x21, 1, dictionary, 0, 0, 0)
}

// appendXZTail appends index and footer.
func appendXZTail(dst []byte, block, raw uint64) []byte {
	index := binary.AppendUvarint([]byte{0, 1}, block)
	index = binary.AppendUvarint(index, raw)
	index = append(index, make([]byte, -len(index)&3)...)
	footer := binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4))
	footer = append(footer, xzFlags...)
	dst = binary.LittleEndian.AppendUint32(appendCRC32(dst, index...), crc32.ChecksumIEEE(footer))
	return append(append(dst, footer...), 'Y', 'Z')
}

// appendCRC32 appends b and its checksum.
func appendCRC32(dst []byte, b ...byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, b...), crc32.ChecksumIEEE(b))
}

func isXZ(stored []byte) bool {
	if len(stored) < xzHeaders+xzFooter {
		return false
	}
	var head [xzHeaders]byte
	return bytes.Equal(appendXZHead(head[:0], stored[xzDictionary]), stored[:xzHeaders])
}

func openXZ(dst, stored []byte, maxRaw int) ([]byte, error) {
	if !isXZ(stored) {
		return nil, ErrCorrupt
	}
	chunks, sum, raw, err := xzBlock(stored)
	switch {
	case err != nil:
		return nil, err
	case raw > uint64(maxRaw):
		return nil, ErrTooLarge
	case raw > xzMostRatio*uint64(len(chunks)):
		return nil, fmt.Errorf("%w: the block can't hold %d bytes", ErrCorrupt, raw)
	}
	dictionary, err := lzma.DecodeDictCap(stored[xzDictionary])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	src := bytes.NewReader(chunks)
	r, err := lzma.Reader2Config{DictCap: max(int(min(uint64(dictionary), raw)), lzma.MinDictCap)}.NewReader2(src)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	out, err := readUpTo(dst, r, maxRaw)
	if err != nil {
		return nil, err
	}
	content := out[len(dst):]
	if uint64(len(content)) != raw || src.Len() > 0 || crc64.Checksum(content, xzPolynomial) != sum {
		return nil, fmt.Errorf("%w: %d bytes, which differ from the index or the checksum", ErrCorrupt, len(content))
	}
	return out, nil
}

// xzBlock splits a stream into LZMA2's chunks, the checksum and the raw length.
func xzBlock(stored []byte) (chunks []byte, sum, raw uint64, err error) {
	index := 4 * (uint64(binary.LittleEndian.Uint32(stored[len(stored)-xzFooter+xzIndexBytes:])) + 1)
	if index > uint64(len(stored)-xzHeaders-xzFooter) {
		return nil, 0, 0, fmt.Errorf("%w: invalid index of %d bytes", ErrCorrupt, index)
	}
	tail := stored[len(stored)-xzFooter-int(index):]
	numbers := tail[min(2, len(tail)):]
	block, n := binary.Uvarint(numbers)
	raw, m := binary.Uvarint(numbers[max(n, 0):])
	padded := (block + 3) &^ 3
	switch {
	case n <= 0 || m <= 0 || !bytes.Equal(appendXZTail(nil, block, raw), tail):
		return nil, 0, 0, fmt.Errorf("%w: not the index of one block", ErrCorrupt)
	case block < xzBlockHeader+crc64.Size || block > uint64(len(stored)) || padded != uint64(len(stored)-len(tail)-xzStreamHeader):
		return nil, 0, 0, fmt.Errorf("%w: invalid block of %d bytes", ErrCorrupt, block)
	}
	chunks, end := stored[xzHeaders:xzStreamHeader+int(block)-crc64.Size], stored[len(stored)-len(tail)-crc64.Size:]
	return chunks, binary.LittleEndian.Uint64(end), raw, nil
}

// appendXZ compresses in the same way at all levels. At some hundred KiB a second that is slow: at level 0,
// long content and content that LZ4 can't compress is stored.
func appendXZ(dst []byte, level int, content []byte, e *codec.Engine) ([]byte, error) {
	store := level == 0 && len(content) > xzMostByDefault
	if level == 0 && !store {
		probe, err := appendBy(dst, codec.LZ4, 0, content, e)
		store = err != nil || len(probe)-len(dst) > len(content)-len(content)/xzLeastGain
	}
	begin, dict := len(dst), min(max(len(content), lzma.MinDictCap), xzMaxDict)
	dst = appendXZHead(dst, lzma.EncodeDictCap(int64(dict)))
	if store {
		dst = appendStored(dst, content)
	} else {
		var err error
		if dst, err = appendLZMA2(dst, content, dict); err != nil {
			return nil, err
		}
	}
	block := len(dst) - begin - xzStreamHeader + crc64.Size
	dst = append(dst, make([]byte, -block&3)...)
	dst = binary.LittleEndian.AppendUint64(dst, crc64.Checksum(content, xzPolynomial))
	return appendXZTail(dst, uint64(block), uint64(len(content))), nil
}

// appendLZMA2 needs memory for the dictionary, which is no larger than necessary for content.
func appendLZMA2(dst, content []byte, dict int) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w, err := lzma.Writer2Config{DictCap: dict}.NewWriter2(out)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// appendStored appends uncompressed LZMA2 chunks: control byte 01 for the first, 02 for others, length less
// one (2, big endian), bytes. 00 ends them.
func appendStored(dst, content []byte) []byte {
	for control := byte(1); len(content) > 0; control = 2 {
		chunk := content[:min(len(content), xzChunk)]
		dst = binary.BigEndian.AppendUint16(append(dst, control), uint16(len(chunk)-1))
		dst, content = append(dst, chunk...), content[len(chunk):]
	}
	return append(dst, 0)
}

// xzBound returns an upper limit on the length, that of uncompressed chunks with headers, index and footer.
func xzBound(n int) int { return n + n>>12 + 128 }
