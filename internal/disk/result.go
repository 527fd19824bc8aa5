package disk

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// Options say what to compute. Either ZFS or Btrfs is given, with one or more settings,
// which all get the same records, so that they can be compared even where a sample is small.
type Options struct {
	Engine   *codec.Engine
	ZFS      []ZFS
	Btrfs    []Btrfs
	Sample   int // records (of btrfs: chunks of 512 KiB) that are computed; 0: all
	Seed     uint64
	Skip     []string // names below the path that are left out
	Progress func(done float64, what string)

	// Mount, where it is given, makes a filesystem with a setting of btrfs, for so many bytes. The
	// sample is written to it, and what it takes there is the answer.
	Mount func(ctx context.Context, b Btrfs, bytes int64) (Volume, error)
}

// Volume is a filesystem to write files to, one after the other, each with a number.
type Volume interface {
	Write(number, size, at int64, data []byte) error
	Stored() (int64, error)
	Close() error
}

// Estimate is what one setting would make of the files. Its JSON is a contract: fields are
// added, never renamed.
type Estimate struct {
	Setting   string  `json:"setting"`
	Logical   int64   `json:"logical_bytes"`  // what is compressed: without holes
	Physical  int64   `json:"physical_bytes"` // of data
	Metadata  int64   `json:"metadata_bytes,omitempty"`
	Ratio     float64 `json:"ratio"`                  // as the filesystem's own tool counts it
	Margin    float64 `json:"ratio_margin,omitempty"` // 95 %; 0: all was computed
	Printed   string  `json:"printed"`                // what that tool would print
	Measured  bool    `json:"measured,omitempty"`     // the filesystem itself has stored the sample
	Error     float64 `json:"error"`                  // as a share: the most that directories were off by, where the real filesystem stored them, too
	RaidBytes int64   `json:"raidz_bytes,omitempty"`
}

// Takes is how many bytes the files take with their metadata, without redundancy.
func (e *Estimate) Takes() int64 { return e.Physical + e.Metadata }

// ratio is as btrfs' tools count it.
func (e *Estimate) ratio() {
	e.Ratio = float64(max(e.Logical, 1)) / float64(max(e.Physical, 1))
	e.Printed = fmt.Sprintf("%.0f%%", 100/e.Ratio)
}

// Result is what is known of the files.
type Result struct {
	Files     int64      `json:"files"`
	Bytes     int64      `json:"bytes"`           // lengths of the files
	Allocated int64      `json:"allocated_bytes"` // what they take now, as stat says it
	Records   int64      `json:"records"`         // with data in them
	Computed  int64      `json:"computed_records"`
	Unread    int64      `json:"unread_files,omitempty"` // and directories
	Changed   int64      `json:"changed_files,omitempty"`
	Links     int64      `json:"symbolic_links,omitempty"`     // not followed
	Mounts    int64      `json:"other_filesystems,omitempty"`  // mounted below, left out
	Fixed     int64      `json:"uncompressed_files,omitempty"` // on btrfs: nodatacow or fallocated, never compressed
	FixedSize int64      `json:"uncompressed_bytes,omitempty"` // what these take
	Estimates []Estimate `json:"estimates"`
}
