package frame

import "github.com/klauspost/compress/zstd"

// ZstdLength returns the content length of a zstd frame, if it is an ordinary frame whose header has that
// length and needs no dictionary.
func ZstdLength(src []byte) (n uint64, ok bool) {
	var h zstd.Header
	if err := h.Decode(src[:min(len(src), zstd.HeaderMaxSize)]); err != nil {
		return 0, false
	}
	return h.FrameContentSize, h.HasFCS && !h.Skippable && h.DictionaryID == 0
}
