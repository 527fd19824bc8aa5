package codec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// Limits of a dictionary's content in bytes. Shorter content would be ignored by libzstd. The maximum keeps
// prepared dictionaries, and the windows that reach into them, small.
const (
	MinDictLen = 16
	MaxDictLen = 512 << 10
)

// Dict is an immutable dictionary, safe for concurrent use.
type Dict struct {
	content []byte
	hash    [32]byte
	number  uint32
	id      uint32 // zstd's own number, in a trained dictionary's header; 0 for raw content
	tags
}

// NewDict returns a dictionary with a copy of content, which is either a trained zstd dictionary as used by
// "zstd -D", or any other bytes that are likely to occur in values. The error wraps [ErrDictionary].
func NewDict(content []byte) (*Dict, error) {
	if len(content) < MinDictLen || len(content) > MaxDictLen {
		return nil, fmt.Errorf("%w: %d bytes, want %d to %d", ErrDictionary, len(content), MinDictLen, MaxDictLen)
	}
	id, err := zstdDictID(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDictionary, err)
	}
	hash := sha256.Sum256(content)
	number := binary.BigEndian.Uint32(hash[:])
	if number == 0 {
		return nil, fmt.Errorf("%w: its number would be zero", ErrDictionary)
	}
	return &Dict{content: slices.Clone(content), hash: hash, number: number, id: id}, nil
}

// zstdDictID checks a trained dictionary's tables and returns its zstd ID, or 0 for raw content.
func zstdDictID(content []byte) (uint32, error) {
	if string(content[:len(zstdframe.DictMagic)]) != zstdframe.DictMagic {
		return 0, nil
	}
	d, err := zstd.InspectDictionary(content)
	if err != nil {
		return 0, err
	}
	return d.ID(), nil
}

// Number identifies the dictionary: the first 4 bytes of its hash, big endian. It is never zero.
func (d *Dict) Number() uint32 { return d.number }

// Hash returns the SHA-256 of the content.
func (d *Dict) Hash() [32]byte { return d.hash }

// Content returns the dictionary's content. The dictionary owns the slice, which must not be modified.
func (d *Dict) Content() []byte { return d.content }

// ZstdID returns the ID in a trained dictionary's own header, which frames from other writers may name; 0 for
// raw content.
func (d *Dict) ZstdID() uint32 {
	if d == nil {
		return 0
	}
	return d.id
}

// Matches reports whether a frame that names the dictionary with zstd ID id may be decoded with d. Raw content
// has no ID of its own, so it matches all; nil matches none.
func (d *Dict) Matches(id uint32) bool {
	return d != nil && (d.id == 0 || d.id == id)
}

// Trained reports whether the content holds zstd's entropy tables.
func (d *Dict) Trained() bool { return d.id != 0 }

// size returns the content's length in bytes, 0 for nil.
func (d *Dict) size() int {
	if d == nil {
		return 0
	}
	return len(d.content)
}

// frameID returns the ID by which the pure Go library finds the dictionary of a frame. Raw content has none
// of its own, so any will do.
func (d *Dict) frameID() uint32 {
	switch {
	case d == nil:
		return 0
	case d.Trained():
		return d.id
	default:
		return 1
	}
}
