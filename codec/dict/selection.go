package dict

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec"
)

// Selection holds content that samples have in common, the most useful last, without strings of 8 bytes that fewer than
// three samples have. Dictionaries of several sizes are cut from its end. They are as good as those for which content
// is selected anew, and cost a small part of the time.
type Selection struct {
	options TrainOptions
	content []byte
	counted [][]byte // samples from which entropy tables are made
}

// Select selects content for dictionaries of up to o.Size bytes. It uses samples, and returns errors, as [Train] does.
// The Selection refers to samples, which must not be changed while it is used.
func Select(samples [][]byte, o TrainOptions) (*Selection, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	samples = usable(samples, o)
	if len(samples) < minSamples {
		return nil, fmt.Errorf("%w: %d samples have 8 bytes or more, want %d", ErrSamples, len(samples), minSamples)
	}
	s := &Selection{options: o}
	if err := s.selectFrom(samples); err != nil {
		return nil, err
	}
	if len(s.content) < codec.MinDictLen {
		return nil, fmt.Errorf("%w: %s: they have only %d bytes in common", ErrSamples, o.Algorithm, len(s.content))
	}
	total := 0
	for _, v := range samples {
		total += len(v)
	}
	s.counted = spread(samples, total, maxCountedBytes)
	return s, nil
}

// maxCountedBytes limits the samples from which entropy tables are made.
const maxCountedBytes = 256 << 10

// Len returns the bytes of the content. Larger dictionaries gain nothing.
func (s *Selection) Len() int { return len(s.content) }

// catch turns a panic of a library on unusual samples into an error. It must be deferred.
func (s *Selection) catch(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %s: panic: %v", ErrSamples, s.options.Algorithm, r)
	}
}

// selectFrom sets content.
func (s *Selection) selectFrom(samples [][]byte) (err error) {
	o := &s.options
	defer s.catch(&err)
	if o.Algorithm != External {
		if o.Segment == 0 {
			o.Segment = bestSegmentLen(samples, *o)
		}
		s.content = newCover(samples).shared(o.Size, o.Segment)
		return nil
	}
	found, err := o.External(samples, more(o.Size))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSamples, o.Algorithm, err)
	}
	// Only the content is used: the tables are for the content before rare strings are cut out.
	if d, err := zstd.InspectDictionary(found); err == nil {
		found = d.Content()
	}
	s.content = shared(found, samples, o.Size)
	return nil
}

// Dict returns a dictionary of at most size bytes. Unless the algorithm is Content it has entropy tables, if the
// samples allow it. The error wraps codec.ErrDictionary if size is below 1 KiB.
func (s *Selection) Dict(size int) (d *codec.Dict, err error) {
	if size < minSize {
		return nil, fmt.Errorf("%w: a size of %d bytes, want at least %d", codec.ErrDictionary, size, minSize)
	}
	defer s.catch(&err)
	content := s.last(size)
	if s.options.Algorithm != Content {
		if trained, err := withTables(s.last(size-tableBytes), s.counted); err == nil && len(trained) <= size {
			content = trained
		}
	}
	if d, err = codec.NewDict(content); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSamples, err)
	}
	return d, nil
}

func (s *Selection) last(bytes int) []byte { return s.content[max(0, len(s.content)-bytes):] }
