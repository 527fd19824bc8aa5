package http

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
)

var errNoMemory = errors.New("no memory is free to decompress the body (memory.budget)")

// recoding is a change of a body's content coding that a rule asks for.
type recoding struct {
	rule    *policy.MessageRule
	setting codec.Setting
	from    string // current coding; "": none
	to      string
}

// Reasons for leaving a body unchanged that a rule covers, as labels of metrics.
const (
	leftUnread   = "unread"  // the receiver is not known to read that coding
	leftSame     = "encoded" // the body has the coding already
	leftForeign  = "unknown" // the body has a coding that the gateway does not read
	leftCorrupt  = "corrupt" // the body is not valid in its coding
	leftNoGain   = "no_gain"
	leftLarge    = "large"
	leftBudget   = "budget"
	leftTooLarge = "too_large" // the body decompresses to more than max_open
	steppedDown  = gateway.SteppedDown
)

// coder changes the content coding of bodies that are in memory.
type coder struct{ cfg *Config }

// recode decompresses a body, if it has a coding, and compresses it as ch says. out is shorter than the body
// by at least what the rule asks for. Otherwise out is nil, reason says why, and the body has to be sent
// unchanged. The grant pays for the memory of all results.
func (c coder) recode(in []byte, ch recoding, g *memory.Grant) (out []byte, reason string) {
	start := time.Now()
	plain, err := c.open(in, ch.from, g)
	if err != nil {
		return nil, c.failureReason(err)
	}
	if !g.TryAcquire(int64(len(plain))) {
		return nil, leftBudget
	}
	ch.setting = c.cfg.Effort.LowerWithin(ch.setting)
	if ch.setting.Codec == codec.Raw {
		return nil, steppedDown
	}
	stint := c.cfg.Effort.Begin(len(plain))
	out, err = c.compress(plain, ch)
	stint.End()
	took := time.Since(start)
	c.cfg.Effort.RecordLatency(took)
	c.cfg.Stats.Latency(took)
	id := ch.setting.Codec
	if err != nil || !ch.rule.SavesEnough(len(in), len(out)) {
		c.cfg.Stats.SealTime(ch.rule.Name, id, took)
		return nil, leftNoGain
	}
	c.cfg.Stats.Sealed(ch.rule.Name, id, len(in), len(out), took)
	return out, ""
}

func (c coder) failureReason(err error) string {
	switch {
	case errors.Is(err, grpccodec.ErrTooLarge):
		return leftTooLarge
	case errors.Is(err, errNoMemory):
		return leftBudget
	}
	c.cfg.Stats.Error("corrupt")
	return leftCorrupt
}

func (c coder) compress(plain []byte, ch recoding) ([]byte, error) {
	if ch.setting.Codec == codec.Snappy {
		return c.cfg.Engine.Compress(nil, plain, ch.setting, nil)
	}
	return c.cfg.Codecs.AppendSetting(nil, plain, ch.setting)
}

// open returns the decompressed body, or the body itself if it has no coding.
func (c coder) open(in []byte, from string, g *memory.Grant) ([]byte, error) {
	switch from {
	case "":
		return in, nil
	case "snappy":
		return c.openSnappy(in, g)
	}
	id, _ := codec.ParseID(from)
	start := time.Now()
	out, err := c.decompress(in, from, func(limit int) error {
		if !g.TryAcquire(int64(limit) + int64(len(in)) - g.Held()) {
			return errNoMemory
		}
		return nil
	})
	if err == nil {
		c.cfg.Stats.Opened(id, len(in), len(out), time.Since(start))
	}
	return out, err
}

// decompress decompresses a body of unknown length. It begins with a low limit, and raises it up to max_open. acquire
// takes the memory for each limit.
func (c coder) decompress(in []byte, from string, acquire func(limit int) error) ([]byte, error) {
	for limit := 8*len(in) + 512; ; limit *= 8 {
		limit = min(limit, c.cfg.MaxOpen)
		if err := acquire(limit); err != nil {
			return nil, err
		}
		out, err := c.cfg.Codecs.AppendDecompress(nil, in, from, limit)
		if !errors.Is(err, grpccodec.ErrTooLarge) || limit == c.cfg.MaxOpen {
			return out, err
		}
	}
}

// snappyRatio is the most bytes that one byte of a snappy block can decompress to: a copy of 64 bytes takes
// three.
const snappyRatio = 22

// openSnappy decompresses the block format, which begins with the decompressed length.
func (c coder) openSnappy(in []byte, g *memory.Grant) ([]byte, error) {
	n, size := binary.Uvarint(in)
	switch {
	case size <= 0:
		return nil, fmt.Errorf("%w: the length is missing", codec.ErrCorrupt)
	case n > uint64(c.cfg.MaxOpen):
		return nil, grpccodec.ErrTooLarge
	case n > snappyRatio*uint64(len(in)):
		return nil, fmt.Errorf("%w: a block of %d bytes can't decompress to %d", codec.ErrCorrupt, len(in), n)
	case !g.TryAcquire(int64(n)):
		return nil, errNoMemory
	}
	start := time.Now()
	out, err := c.cfg.Engine.Decompress(nil, in, codec.Snappy, int(n), nil)
	if err == nil {
		c.cfg.Stats.Opened(codec.Snappy, len(in), len(out), time.Since(start))
	}
	return out, err
}
