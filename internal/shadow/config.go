package shadow

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Config of a run. Zero fields take the defaults that are named.
type Config struct {
	Protocol Protocol
	// ProtocolName and Rules, those of the Candidate, are kept in the State: a run with others does not go on from it.
	ProtocolName string
	Rules        []string

	Production gateway.Upstream
	Control    gateway.Upstream
	Test       gateway.Upstream
	ClientTLS  *tls.Config // nil: clients are not asked for TLS

	// Candidate puts what is to be judged in front of the test target, which has the old
	// configuration before: so the run begins with an A/A phase. stop takes it away again.
	// nil: both targets are what they are; an A/A phase is a run of its own (BaselineOnly).
	Candidate func(context.Context) (up gateway.Upstream, stop func(), err error)

	Reads        float64       // share of the reads that are mirrored; 1
	Margins      Margins       // 5 % for the p50, 10 % for the p99
	Batch        time.Duration // 30 s
	State        string        // file of what was observed, to go on from; "": none is kept
	BaselineOnly bool          // the run is the A/A phase of another, which goes on from State

	Databases []string // that are mirrored, where the protocol has such; none: all

	AllowForeign bool // targets may reach other servers, where the protocol has such; else a run does not begin

	Ignore []string // columns that are left out of what is compared, where the protocol has such

	DataCheck      DataCheck     // of the targets, at the end; off
	DataTime       time.Duration // that it may take; 10 min
	DataProduction bool          // compare with production's data, too: nobody writes to it then

	Baseline int // batches of the A/A phase; 0: as many as a verdict needs
	Batches  int // batches of the test phase after which the run ends without a verdict; 0: none

	SelfTestPairs int // of batches, after which the self-test says that this machine is too noisy; 1000

	// StorageCommands print how many bytes a target's data takes on disk, by the target's name. Without one it is looked up where the
	// files are on this machine.
	StorageCommands map[string]string
	OffTime         time.Duration // that measuring may take when the mirror was turned off; 10 s

	Memory   int64         // bound of what waits for the targets; 128 MiB
	Bound    time.Duration // that more than 1 % of a second's pieces, and three, may be held up for; 1 ms
	Wait     time.Duration // that an operation waits at a target for those before it; 100 ms
	Patience time.Duration // for an answer of a target, beside ten times what production took; 10 s

	Log *slog.Logger // silence
}

// Margins are how much slower is still equal: 0.05 is 5 %.
type Margins struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Absolute is how much longer is still equal, whatever share that is.
	Absolute time.Duration `json:"absolute_ns,omitempty"`
}

// MiB is the unit of memory bounds.
const MiB = 1 << 20

func (c Config) withDefaults() *Config {
	c.Reads = cmp.Or(c.Reads, 1)
	c.Margins.P50 = cmp.Or(c.Margins.P50, 0.05)
	c.Margins.P99 = cmp.Or(c.Margins.P99, 0.10)
	c.Batch = cmp.Or(c.Batch, 30*time.Second)
	c.Memory = cmp.Or(c.Memory, 128*MiB)
	c.Bound = cmp.Or(c.Bound, time.Millisecond)
	c.Wait = cmp.Or(c.Wait, 100*time.Millisecond)
	c.DataTime = cmp.Or(c.DataTime, dataTime)
	c.Patience = cmp.Or(c.Patience, 10*time.Second)
	c.OffTime = cmp.Or(c.OffTime, 10*time.Second)
	c.SelfTestPairs = cmp.Or(c.SelfTestPairs, selfTestPairs)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &c
}

// DataCheck is how much of the data is compared.
type DataCheck string

// How much that is.
const (
	DataOff    DataCheck = "off"
	DataSample DataCheck = "sample" // small tables, and parts of large ones
	DataFull   DataCheck = "full"
)

// ErrDataCheck is returned for what is none of these.
var ErrDataCheck = errors.New("off, sample or full")

// Set reads it: "" is sample.
func (d *DataCheck) Set(text string) error {
	switch how := DataCheck(text); how {
	case DataOff, DataSample, DataFull:
		*d = how
		return nil
	}
	return fmt.Errorf("%q: %w", text, ErrDataCheck)
}

// String is what Set reads.
func (d *DataCheck) String() string { return string(*d) }

// Type is what flags call it.
func (d *DataCheck) Type() string { return "HOW" }

// dataTime is for a check of the data unless another is set.
const dataTime = 10 * time.Minute
