// Package inspect describes a stored value: whether it is plain, an envelope or a damaged one, and for an
// envelope what its header says and whether it opens. It does no I/O; the caller provides bytes and
// dictionaries.
package inspect

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
)

// Report describes one stored value. Its JSON is a contract: fields are added, never renamed. Sizes are in
// bytes.
type Report struct {
	Envelope    bool    `json:"envelope"` // begins with the magic
	StoredBytes int     `json:"stored_bytes"`
	Header      *Header `json:"header,omitempty"` // nil: no envelope, or its header can't be read
	Readable    bool    `json:"opens"`            // a plain value always is
	Problem     string  `json:"problem,omitempty"`
	ErrorText   string  `json:"error,omitempty"`
	ValueStart  string  `json:"value_start,omitempty"` // the first bytes of the value, see Preview

	Value []byte `json:"-"` // the value, if it opens
	Err   error  `json:"-"` // why it doesn't open
}

// Header is the envelope's header with values derived from it.
type Header struct {
	Magic          string  `json:"magic"` // hex
	Version        uint8   `json:"version"`
	Codec          string  `json:"codec"`
	CodecID        uint8   `json:"codec_id"`
	Dictionary     string  `json:"dictionary,omitempty"` // number, 8 hex digits
	RawBytes       int     `json:"raw_bytes"`
	HeaderBytes    int     `json:"header_bytes"`
	PayloadBytes   int     `json:"payload_bytes"`
	Ratio          float64 `json:"ratio"`                     // raw to stored, 0 for an empty value
	Checksum       string  `json:"checksum,omitempty"`        // if there is no dictionary
	ChecksumResult string  `json:"checksum_result,omitempty"` // "ok", "differs", "not checked"
	Tag            string  `json:"tag,omitempty"`             // if there is a dictionary
	TagResult      string  `json:"tag_result,omitempty"`      // same values as ChecksumResult
	Foreign        string  `json:"foreign,omitempty"`         // format of the client's value, see docs/FORMAT.md, 11
	ExtensionWords int     `json:"extension_words"`
}

// Values of Report.Problem, one for each case that callers treat differently.
const (
	Damaged           = "damaged"
	DictionaryMissing = "dictionary missing"
	UnknownCodec      = "unknown codec"
	TooLarge          = "too large"
	Other             = "other" // the dictionary could not be looked up
)

// previewBytes limits how much of the value a report shows.
const previewBytes = 64

// Inspect examines stored, and opens it with s. The report's Value is a copy.
func Inspect(s *envelope.Sealer, stored []byte) Report {
	r := Report{Envelope: envelope.IsSealed(stored), StoredBytes: len(stored)}
	if h, err := envelope.ParseHeader(stored); err == nil {
		r.Header = describe(h, len(stored))
	}
	r.Value, r.Err = s.Open(nil, stored)
	if r.Readable = r.Err == nil; r.Readable {
		r.ValueStart = Preview(r.Value, previewBytes)
	} else {
		r.Value, r.Problem, r.ErrorText = nil, problem(r.Err), r.Err.Error()
	}
	if h := r.Header; h != nil && h.Tag != "" {
		h.TagResult = tagResult(r.Err)
	} else if h != nil {
		h.ChecksumResult = checksumResult(r.Err)
	}
	return r
}

func describe(h envelope.Header, stored int) *Header {
	d := &Header{
		Magic:          fmt.Sprintf("%x", envelope.Magic),
		Version:        h.Version,
		Codec:          h.Codec.String(),
		CodecID:        uint8(h.Codec),
		RawBytes:       h.RawLen,
		HeaderBytes:    h.Len,
		PayloadBytes:   stored - h.Len,
		Ratio:          float64(h.RawLen) / float64(stored),
		ExtensionWords: len(h.Ext) / 4,
	}
	if h.IsForeign() {
		d.Foreign = clientformat.Format(h.Foreign.Format).String()
	}
	if h.HasDict {
		d.Dictionary, d.Tag = fmt.Sprintf("%08x", h.Dict), fmt.Sprintf("%x", h.Tag)
	} else {
		d.Checksum = fmt.Sprintf("%08x", h.Checksum)
	}
	return d
}

func problem(err error) string {
	switch {
	case errors.Is(err, envelope.ErrDamaged):
		return Damaged
	case errors.Is(err, envelope.ErrDictMissing):
		return DictionaryMissing
	case errors.Is(err, envelope.ErrUnknownCodec):
		return UnknownCodec
	case errors.Is(err, envelope.ErrTooLarge):
		return TooLarge
	}
	return Other
}

func checksumResult(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, envelope.ErrChecksum):
		return "differs"
	}
	return "not checked"
}

func tagResult(err error) string {
	switch {
	case err == nil, errors.Is(err, envelope.ErrPayload):
		return "ok"
	case errors.Is(err, envelope.ErrTag):
		return "differs"
	}
	return "not checked"
}
