package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Bytes is a size in bytes. As text it is a whole number of bytes, or of a unit: 1000, "256KB", "32MiB".
type Bytes int64

var units = []struct {
	name string
	size int64
}{
	// Binary units first, in descending order: String takes the first that divides.
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil {
		return terminal.WithHint(fmt.Errorf("%q is not a size", s), "write bytes, or a unit as in 256KB or 32MiB")
	}
	size := int64(0)
	unit := strings.TrimSpace(s[digits:])
	for _, u := range units {
		if u.name == unit {
			size = u.size
		}
	}
	switch {
	case unit == "":
		size = 1
	case size == 0:
		return terminal.WithHint(fmt.Errorf("unknown unit in %q", s), "KB is 1000 bytes and KiB is 1024; also MB, MiB, GB, GiB")
	}
	if n > math.MaxInt64/size {
		return fmt.Errorf("%q is too large", s)
	}
	*b = Bytes(n * size)
	return nil
}

// String returns a text that UnmarshalText reads.
func (b Bytes) String() string {
	for _, u := range units[:4] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalYAML prints a plain number as a number.
func (b Bytes) MarshalYAML() (any, error) {
	if s := b.String(); strings.HasSuffix(s, "B") {
		return s, nil
	}
	return int64(b), nil
}

// Percent is a share; 10 stands for "10%".
type Percent float64

// nearZero stands for 0% where zero selects the default.
const nearZero = 1e-9

// Share returns p as a fraction, 0.1 for 10%. It is never zero.
func (p Percent) Share() float64 { return max(float64(p)/100, nearZero) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil {
		return terminal.WithHint(fmt.Errorf("%q is not a percentage", text), "write it with its sign, as in 10%%")
	}
	if !(f >= 0 && f < 100) {
		return fmt.Errorf("%s%% is not between 0%% and 100%%", number)
	}
	*p = Percent(f)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (p Percent) MarshalText() ([]byte, error) {
	return append(strconv.AppendFloat(nil, float64(p), 'g', -1, 64), '%'), nil
}

// Cores is CPU time per time: 0.2 and "20%" are a fifth of one core.
type Cores float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Cores) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return terminal.WithHint(fmt.Errorf("%q is not a share of a core", text), "write 20%% or 0.2 for a fifth of one core, 2 for two cores")
	}
	if percent {
		f /= 100
	}
	*c = Cores(f)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (c Cores) MarshalText() ([]byte, error) {
	return append(strconv.AppendFloat(nil, math.Round(float64(c)*1e8)/1e6, 'g', -1, 64), '%'), nil
}

// Ratio is a fraction between 0 and 1: 0.01 and "1%" are one in a hundred.
type Ratio float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Ratio) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return terminal.WithHint(fmt.Errorf("%q is not a share", text), "write 0.01 or 1%% for one in a hundred, 1 for all")
	}
	*r = Ratio(f)
	return nil
}

// MarshalYAML implements yaml.Marshaler.
func (r Ratio) MarshalYAML() (any, error) { return float64(r), nil }

// Duration is a time span, "30s" or "1m30s".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return terminal.WithHint(fmt.Errorf("%q is not a duration", text), "write it with its unit, as in 500ms, 30s or 5m")
	}
	*d = Duration(v)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// Setting is a codec.Setting as text, or the word auto if the gateway chooses.
type Setting struct {
	codec.Setting
	Auto bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Setting) UnmarshalText(text []byte) (err error) {
	if s.Auto = string(text) == autoSetting; s.Auto {
		s.Setting = codec.Setting{}
		return nil
	}
	s.Setting, err = codec.ParseMessageSetting(string(text))
	if !errors.Is(err, codec.ErrUnknownCodec) {
		return err
	}
	var names []string
	for id := codec.Raw; id.Known(); id++ {
		names = append(names, id.String())
	}
	name, _, _ := strings.Cut(string(text), "-")
	if near := terminal.Nearest(name, names); near != "" {
		return terminal.WithHint(err, "did you mean %q?", near)
	}
	return terminal.WithHint(err, "codecs are %s", strings.Join(names, ", "))
}

const autoSetting = "auto"

// String returns the text that UnmarshalText reads.
func (s Setting) String() string {
	if s.Auto {
		return autoSetting
	}
	return s.Setting.String()
}

// MarshalText implements encoding.TextMarshaler.
func (s Setting) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Connections is a number of connections to an upstream, or as text "auto" or "off".
type Connections int

// The values of Connections that are no numbers. 0 means that the key is not given.
const (
	AutoConnections Connections = -1 - iota
	NoConnections
)

const offConnections = "off"

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Connections) UnmarshalText(text []byte) error {
	switch string(text) {
	case autoSetting:
		*c = AutoConnections
		return nil
	case offConnections:
		*c = NoConnections
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > maxUpstreamConnections {
		return terminal.WithHint(fmt.Errorf("%q is not a number of connections", text), "write auto, off, or a number from 1 to %d", maxUpstreamConnections)
	}
	*c = Connections(n)
	return nil
}

const maxUpstreamConnections = 1024

// MarshalYAML prints the text that UnmarshalText reads, a number as a number.
func (c Connections) MarshalYAML() (any, error) {
	switch c {
	case AutoConnections:
		return autoSetting, nil
	case NoConnections:
		return offConnections, nil
	}
	return int(c), nil
}

// TypeName is a type of values: "string", "hash" or "stream".
type TypeName string

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *TypeName) UnmarshalText(text []byte) error {
	*t = TypeName(text)
	if t.bit() != 0 {
		return nil
	}
	err := fmt.Errorf("unknown type %q", text)
	if slices.Contains([]string{"list", "set", "zset"}, string(text)) {
		return terminal.WithHint(err, "members of lists, sets and sorted sets are never compressed")
	}
	return terminal.WithHint(err, "types are string, hash, stream")
}

func (t TypeName) bit() policy.Type {
	for bit := policy.String; bit <= policy.Stream; bit <<= 1 {
		if bit.String() == string(t) {
			return bit
		}
	}
	return 0
}

func sortedList(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}
