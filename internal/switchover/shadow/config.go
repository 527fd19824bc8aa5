package shadow

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// Config configures a run. Zero fields take the defaults that are named.
type Config struct {
	Protocol Protocol
	// ProtocolName and the candidate's Rules are saved in the State: a run with different ones can't continue it.
	ProtocolName string
	Rules        []string

	Production endpoint.Upstream
	Control    endpoint.Upstream
	Test       endpoint.Upstream
	ClientTLS  *tls.Config // nil: clients are not asked for TLS

	// Candidate puts the configuration to be tested in front of the test target, which runs the old
	// configuration until then, so the run begins with an A/A phase. stop removes it again. nil: both targets
	// stay as they are, and an A/A phase is a run of its own (BaselineOnly).
	Candidate func(context.Context) (up endpoint.Upstream, stop func(), err error)

	Reads        float64       // share of the reads that are mirrored; 1
	Margins      Margins       // 5 % for the p50, 10 % for the p99
	Batch        time.Duration // 30 s
	State        string        // file of the observations, to continue from; "": none is kept
	BaselineOnly bool          // the run is the A/A phase of another, which continues from State

	Databases []string // to mirror, where the protocol has databases; none: all

	AllowForeign bool // targets may reach other servers (foreign tables); otherwise a run with such targets does not begin

	Ignore []string // columns left out of the comparison, where the protocol has columns

	DataCheck      DataCheck     // of the targets, at the end; off
	DataTime       time.Duration // limit for the DataCheck; 10 min
	DataProduction bool          // compare with production's data, too: no client may write to it then

	Baseline int // batches of the A/A phase; 0: as many as a verdict needs
	Batches  int // batches of the test phase after which the run ends without a verdict; 0: none

	SelfTestPairs int // pairs of batches after which the self-test reports a machine that is too noisy; 1000

	// StorageCommands print how many bytes a target's data takes on disk, keyed by the target's name. Without
	// one, the size is read from the files if they are on this machine.
	StorageCommands map[string]string
	OffTime         time.Duration // limit for measuring after the mirror was turned off; 10 s

	Memory   int64         // limit of the memory of waiting operations and their answers; 128 MiB
	Bound    time.Duration // the mirror turns itself off if in a second 3 pieces, and over 1 %, take longer; 1 ms
	Wait     time.Duration // how long an operation waits at a target for those before it; 100 ms
	Patience time.Duration // limit for a target's answer, in addition to ten times production's time; 10 s

	Log *slog.Logger // nil: no logs
}

// Margins limit how much slower still counts as equal: 0.05 is 5 %.
type Margins struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Absolute is a difference of latencies that still counts as equal, whatever the share.
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

// DataCheck selects how much of the data is compared.
type DataCheck string

// Values of DataCheck.
const (
	DataOff    DataCheck = "off"
	DataSample DataCheck = "sample" // small tables, and parts of large ones
	DataFull   DataCheck = "full"
)

// ErrDataCheck is returned by Set for any other value.
var ErrDataCheck = errors.New("off, sample or full")

// Set parses a DataCheck.
func (d *DataCheck) Set(text string) error {
	switch how := DataCheck(text); how {
	case DataOff, DataSample, DataFull:
		*d = how
		return nil
	}
	return fmt.Errorf("%q: %w", text, ErrDataCheck)
}

// String returns the text that Set parses.
func (d *DataCheck) String() string { return string(*d) }

// Type returns the name of the value in the help of flags.
func (d *DataCheck) Type() string { return "HOW" }

// dataTime is the default of Config.DataTime.
const dataTime = 10 * time.Minute
