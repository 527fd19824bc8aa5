package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Size is the size of a node's directory on the disk.
type Size struct {
	Data int64     `json:"data_bytes"` // without WAL; tablespaces included
	WAL  int64     `json:"wal_bytes"`
	By   string    `json:"by"` // compsize; du; or filesystem, which counts everything on it
	At   time.Time `json:"at,omitzero"`
}

func (s Size) String() string {
	if s.By == byFilesystem {
		return terminal.Size(s.Data) + " (whole filesystem)"
	}
	return fmt.Sprintf("%s and %s of WAL", terminal.Size(s.Data), terminal.Size(s.WAL))
}

// Values of Size.By.
const (
	byCompsize   = "compsize"
	byDu         = "du"
	byFilesystem = "filesystem" // btrfs, if compsize is not installed or not allowed: it needs root
)

// sizeScript prints how it measures, the bytes of one or more directories without pg_wal, and those of the first one's
// pg_wal. Files come and go meanwhile, so it ignores failures of the programs and uses what they print. On btrfs du
// would show sizes before compression.
const sizeScript = `
count() {
	case $by in
	compsize) for try in 1 2 3; do compsize -b "$@" 2>/dev/null && break; done | awk '$1 == "TOTAL" {n = $3} END {print n + 0}';;
	du) du -s -c -B1 "$@" 2>/dev/null | awk 'END {print $1 + 0}';;
	esac
}
sync -f "$1"
by=du
if [ "$(stat -f -c %T "$1")" = btrfs ]; then
	by=compsize
	compsize -b "$1/PG_VERSION" >/dev/null 2>&1 || { echo filesystem $(df -B1 --output=used "$1" | tail -n 1) 0; exit; }
fi
wal=$1/pg_wal
for d in "$@"; do
	shift
	for f in "$d"/* "$d"/.[!.]*; do if [ -e "$f" ] && [ "$f" != "$wal" ]; then set -- "$@" "$f"; fi; done
done
echo $by $(count "$@") $(count "$wal/.")`

// diskUse returns the size of a node's directories. The first one is its data directory.
func (n *Node) diskUse(ctx context.Context, directories []string) (s Size, err error) {
	as := n.Run
	if n.Root != nil {
		as = n.Root
	}
	out, err := execute(ctx, nil, remoteCommand(as, append([]string{"sh", "-c", sizeScript, "sh"}, directories...)...))
	if err != nil {
		return s, err
	}
	if _, err := fmt.Sscan(out, &s.By, &s.Data, &s.WAL); err != nil {
		return s, fmt.Errorf("measure the size of %s: %q: %w", n.Directory, strings.TrimSpace(out), err)
	}
	s.At = time.Now().UTC().Truncate(time.Second)
	return s, nil
}

// place describes where a new node's directory will be.
type place struct {
	free       int64
	filesystem string
	options    string // mount options; for ZFS recordsize, compression and ashift
}

func (p place) String() string {
	if s, ok := p.setting(); ok {
		return p.filesystem + " with " + s.name
	}
	return p.filesystem
}

// placeScript examines the filesystem of a directory that need not exist.
const placeScript = `d=$1; while [ ! -e "$d" ]; do d=$(dirname "$d"); done
df -B1 --output=avail,fstype,source,target "$d" | tail -n 1 | {
	read -r avail type source target
	case $type in
	zfs) options=$(zfs get -H -p -o value recordsize,compression "$source" | tr '\n' ' ')$(zpool get -H -o value ashift "${source%%/*}");;
	*) options=$(awk -v at="$target" '$2 == at {o = $4} END {print o}' /proc/mounts);;
	esac
	echo "$avail $type $options"
}`

func (n *Node) place(ctx context.Context) (p place, err error) {
	out, err := n.command(ctx, "sh", "-c", placeScript, "sh", n.Directory)
	if err != nil {
		return p, err
	}
	fields := strings.SplitN(strings.TrimSpace(out), " ", 3)
	if p.free, err = strconv.ParseInt(fields[0], 10, 64); err != nil || len(fields) < 2 {
		return p, fmt.Errorf("df of %s: %q", n.Name, strings.TrimSpace(out))
	}
	if p.filesystem = fields[1]; len(fields) > 2 {
		p.options = fields[2]
	}
	return p, nil
}

// setting describes a filesystem's compression by the arguments for cinch plan.
type setting struct {
	name string
	args []string
}

func (p place) setting() (s setting, compresses bool) {
	switch p.filesystem {
	case "btrfs":
		return btrfsSetting(p.options), true
	case "zfs":
		var record, compression, ashift string
		if n, _ := fmt.Sscan(p.options, &record, &compression, &ashift); n < 3 {
			return s, false
		}
		if ashift == "0" { // the pool chose it by its disks
			ashift = "12"
		}
		return setting{name: compression + ", recordsize " + record, args: []string{"--compression", compression, "--recordsize", record, "--ashift", ashift}}, true
	}
	return s, false
}

func btrfsSetting(options string) setting {
	for o := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "compress":
			return setting{name: o, args: []string{"--compression", value}}
		case "compress-force":
			return setting{name: o, args: []string{"--compression", value, "--force"}}
		}
	}
	return setting{name: "no compression", args: []string{"--compression", "off"}}
}

// Prediction is the result of cinch plan --disk.
type Prediction struct {
	Setting string  `json:"setting"`
	Bytes   int64   `json:"bytes"` // without WAL
	Margin  float64 `json:"margin,omitempty"`
}

// leftOut lists what a base backup leaves out, and WAL.
const leftOut = "pg_wal,pg_replslot,pg_dynshmem,pg_notify,pg_serial,pg_snapshots,pg_stat_tmp,pg_subtrans"

// oldDirectories returns the data directory and the tablespaces of the old node.
func (t *task) oldDirectories() []string {
	return append([]string{t.oldNode.Directory}, slices.Sorted(maps.Keys(t.newNode.Tablespaces))...)
}

// predict predicts the size of the old node's files in the new place. It samples them on their machine.
func (t *task) predict(ctx context.Context, at place) (p Prediction, err error) {
	s, ok := at.setting()
	switch {
	case !ok && at.filesystem == "zfs":
		return p, fmt.Errorf("zfs and zpool do not report on %s", t.newNode.Directory)
	case !ok:
		return Prediction{Setting: at.filesystem, Bytes: t.progress.Old.Data}, nil
	}
	p.Setting = at.filesystem + " " + s.name
	for _, directory := range t.oldDirectories() {
		out, err := t.oldNode.command(ctx, t.oldNode.cinch(), t.oldNode.planning(at.filesystem, s, directory)...)
		if err != nil {
			return p, err
		}
		if err := p.add([]byte(out)); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (n *Node) cinch() string {
	if n.Cinch == "" {
		return "cinch"
	}
	return n.Cinch
}

func (n *Node) planning(filesystem string, s setting, directory string) []string {
	return append([]string{"plan", "--disk", filesystem, directory, "--skip", leftOut, "--json"}, s.args...)
}

// add adds cinch plan's result for a directory.
func (p *Prediction) add(out []byte) error {
	var r struct {
		Results []struct {
			Estimates []struct {
				Physical int64   `json:"physical_bytes"`
				Metadata int64   `json:"metadata_bytes"`
				Ratio    float64 `json:"ratio"`
				Margin   float64 `json:"ratio_margin"`
			} `json:"estimates"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("cinch plan: %w", err)
	}
	if len(r.Results) != 1 || len(r.Results[0].Estimates) != 1 {
		return errors.New("cinch plan has no estimate for the setting")
	}
	e := r.Results[0].Estimates[0]
	p.Bytes += e.Physical + e.Metadata
	p.Margin = max(p.Margin, e.Margin/max(e.Ratio, 1))
	return nil
}

// compareSize compares the size of a base backup with the prediction.
func (p preparation) compareSize(ctx context.Context) {
	now, err := p.newNode.diskUse(ctx, p.newNode.directories())
	if err != nil {
		p.log("the size of %s is unknown: %v", p.newNode.Name, err)
		return
	}
	p.progress.Backup, p.progress.Now = now, now
	predicted := p.progress.Predicted.Bytes
	switch {
	case predicted == 0:
		p.log("%s takes %s", p.newNode.Name, now)
	case now.By == byFilesystem:
		p.log("%s takes %s; predicted: %s", p.newNode.Name, now, terminal.Size(predicted))
	default:
		p.log("%s takes %s; predicted: %s of data, difference %+.1f %%", p.newNode.Name, now, terminal.Size(predicted), 100*(share(now.Data, predicted)-1))
	}
}

func share(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }
