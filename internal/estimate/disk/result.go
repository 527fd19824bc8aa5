package disk

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// Options configures what to compute. Either ZFS or Btrfs has one or more settings. All settings get the same
// records, so that they can be compared even if a sample is small.
type Options struct {
	Engine   *codec.Engine
	ZFS      []ZFS
	Btrfs    []Btrfs
	Sample   int // records (for btrfs: chunks of 512 KiB) to compute; 0: all
	Seed     uint64
	Skip     []string // names below the path to leave out
	Progress func(done float64, what string)

	// Mount, if given, makes a filesystem for up to bytes bytes with a setting of btrfs. The sample is
	// written to it, and its size there is the result.
	Mount func(ctx context.Context, b Btrfs, bytes int64) (Volume, error)
}

// Volume is a filesystem to write files to, one after the other, each with a number.
type Volume interface {
	Write(number, size, at int64, data []byte) error
	Stored() (int64, error)
	Close() error
}

// Estimate is the result of one setting for the files. Its JSON is a contract: fields are added, never
// renamed.
type Estimate struct {
	Setting   string  `json:"setting"`
	Logical   int64   `json:"logical_bytes"`  // before compression, without holes
	Physical  int64   `json:"physical_bytes"` // of data
	Metadata  int64   `json:"metadata_bytes,omitempty"`
	Ratio     float64 `json:"ratio"`                  // as the filesystem's own tool computes it
	Margin    float64 `json:"ratio_margin,omitempty"` // 95 %; 0: everything was computed
	Printed   string  `json:"printed"`                // as that tool would print it
	Measured  bool    `json:"measured,omitempty"`     // the filesystem itself has stored the sample
	Error     float64 `json:"error"`                  // as a share: the maximum error of such estimates for directories that real filesystems stored
	RaidBytes int64   `json:"raidz_bytes,omitempty"`
}

// Takes returns the size of the files in bytes with their metadata, without redundancy.
func (e *Estimate) Takes() int64 { return e.Physical + e.Metadata }

// ratio sets the ratio as btrfs' tools compute it.
func (e *Estimate) ratio() {
	e.Ratio = float64(max(e.Logical, 1)) / float64(max(e.Physical, 1))
	e.Printed = fmt.Sprintf("%.0f%%", 100/e.Ratio)
}

// Result holds the figures of the files.
type Result struct {
	Files     int64      `json:"files"`
	Bytes     int64      `json:"bytes"`           // lengths of the files
	Allocated int64      `json:"allocated_bytes"` // present size, from stat
	Records   int64      `json:"records"`         // with data
	Computed  int64      `json:"computed_records"`
	Unread    int64      `json:"unread_files,omitempty"` // and directories
	Changed   int64      `json:"changed_files,omitempty"`
	Links     int64      `json:"symbolic_links,omitempty"`     // not followed
	Mounts    int64      `json:"other_filesystems,omitempty"`  // mounted below, left out
	Fixed     int64      `json:"uncompressed_files,omitempty"` // on btrfs: nodatacow or fallocated, never compressed
	FixedSize int64      `json:"uncompressed_bytes,omitempty"` // their size on disk
	Estimates []Estimate `json:"estimates"`
}
