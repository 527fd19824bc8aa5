package http

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/held"
	"github.com/cinch-layer/cinch/internal/policy"
)

var errNoMemory = errors.New("no memory is free to open it (memory.budget)")

// recoding is what a rule makes of a body.
type recoding struct {
	rule    *policy.MessageRule
	setting codec.Setting
	from    string // the coding that it has; "" is none
	to      string
}

// Reasons why a body that a rule covers goes as it came, in metrics.
const (
	leftUnread   = "unread"  // the receiver is not known to read that coding
	leftSame     = "encoded" // it has the coding already
	leftForeign  = "unknown" // it has one that we don't read
	leftCorrupt  = "corrupt" // or it is none of that
	leftNoGain   = "no_gain"
	leftLarge    = "large"
	leftBudget   = "budget"
	leftTooLarge = "too_large" // it opens to more than max_open
	steppedDown  = gateway.SteppedDown
)

// coder changes the content coding of bodies that are in memory.
type coder struct{ cfg *Config }

// recode opens a body, if it has a coding, and compresses it as a recoding says. What it returns is shorter than the body by
// as much as the rule asks for; else the reason is why not, and the body is to go as it came. The grant pays for all that is
// made.
func (c coder) recode(in []byte, ch recoding, g *held.Grant) (out []byte, reason string) {
	start := time.Now()
	plain, err := c.open(in, ch.from, g)
	if err != nil {
		return nil, c.notOpened(err)
	}
	if !g.Try(int64(len(plain))) {
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
	c.cfg.Effort.Took(took)
	c.cfg.Stats.Latency(took)
	id := ch.setting.Codec
	if err != nil || !ch.rule.Worth(len(in), len(out)) {
		c.cfg.Stats.SealTime(ch.rule.Name, id, took)
		return nil, leftNoGain
	}
	c.cfg.Stats.Sealed(ch.rule.Name, id, len(in), len(out), took)
	return out, ""
}

func (c coder) notOpened(err error) string {
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

// open returns what a body holds, the body itself if it has no coding.
func (c coder) open(in []byte, from string, g *held.Grant) ([]byte, error) {
	switch from {
	case "":
		return in, nil
	case "snappy":
		return c.openSnappy(in, g)
	}
	id, _ := codec.ParseID(from)
	start := time.Now()
	for limit := 8*len(in) + 512; ; limit *= 8 {
		limit = min(limit, c.cfg.MaxOpen)
		if !g.Try(int64(limit) + int64(len(in)) - g.Held()) {
			return nil, errNoMemory
		}
		out, err := c.cfg.Codecs.AppendDecompress(nil, in, from, limit)
		if errors.Is(err, grpccodec.ErrTooLarge) && limit < c.cfg.MaxOpen {
			continue
		}
		if err == nil {
			c.cfg.Stats.Opened(id, len(in), len(out), time.Since(start))
		}
		return out, err
	}
}

// snappyRatio is how many bytes one byte of a snappy block holds, at most: a copy of 64 takes three.
const snappyRatio = 22

// openSnappy opens the block format, which begins with the length of what it holds.
func (c coder) openSnappy(in []byte, g *held.Grant) ([]byte, error) {
	n, size := binary.Uvarint(in)
	switch {
	case size <= 0:
		return nil, fmt.Errorf("%w: no length", codec.ErrCorrupt)
	case n > uint64(c.cfg.MaxOpen):
		return nil, grpccodec.ErrTooLarge
	case n > snappyRatio*uint64(len(in)):
		return nil, fmt.Errorf("%w: %d bytes hold no %d", codec.ErrCorrupt, len(in), n)
	case !g.Try(int64(n)):
		return nil, errNoMemory
	}
	start := time.Now()
	out, err := c.cfg.Engine.Decompress(nil, in, codec.Snappy, int(n), nil)
	if err == nil {
		c.cfg.Stats.Opened(codec.Snappy, len(in), len(out), time.Since(start))
	}
	return out, err
}
