package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/samples"
	"github.com/cinch-layer/cinch/internal/ui"
)

const (
	heldOutOf       = 5  // one sample in so many is kept for measuring
	minTrainSamples = 10 // fewer say nothing about the values to come
)

// autoSizes are the sizes in bytes that are tried when none is given. Bigger
// is often worse: a large dictionary costs offsets on every match.
var autoSizes = []int{2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 110 << 10}

type dictTrainOptions struct {
	from    []string
	out     string
	size    string // "auto" or a size
	setting string
	asJSON  bool

	stdout, stderr io.Writer
}

func newDictTrainCommand() *cobra.Command {
	var o dictTrainOptions
	cmd := &cobra.Command{
		Use:   "train --out FILE {FILE | DIR | FILE.jsonl}…",
		Short: "Train a dictionary from sample values",
		Long: `Train a dictionary from sample values: each file, each file below a directory, each line of a .jsonl file.

It trains on four fifths of the samples and measures on the fifth that it has not seen: the bytes that would be
stored (headers included, values that gain nothing as they are) plain, with zstd, and with zstd and the dictionary.`,
		Example: `  cinch dict train --out orders.dict orders.jsonl
  cinch dict train --out menus.dict --size 16KiB --setting zstd-9 samples/menus`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.from, o.stdout, o.stderr = args, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runDictTrain(o)
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "the file to write; it must not exist")
	cmd.Flags().StringVar(&o.size, "size", "auto", "size of the dictionary; auto tries several and keeps the best")
	cmd.Flags().StringVar(&o.setting, "setting", "zstd-3", "the setting it is measured with")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

// dictTrial is one dictionary and what it does on the held-out samples. Sizes
// are in bytes. Its JSON is a contract: fields are added, never renamed.
type dictTrial struct {
	TargetBytes int      `json:"target_bytes"` // the size asked for
	Dictionary  dictInfo `json:"dictionary"`
	StoredBytes int      `json:"stored_bytes"`
	Ratio       float64  `json:"ratio"`
	Best        bool     `json:"best"`

	dict *codec.Dict
}

// dictTraining is the result as JSON.
type dictTraining struct {
	Samples      int         `json:"samples"`
	TrainedOn    int         `json:"trained_on"`
	MeasuredOn   int         `json:"measured_on"`
	Skipped      int         `json:"skipped"`
	Setting      string      `json:"setting"`
	PlainBytes   int         `json:"plain_bytes"`   // of the held-out samples
	WithoutBytes int         `json:"without_bytes"` // stored without a dictionary
	WithoutRatio float64     `json:"without_ratio"`
	Trials       []dictTrial `json:"trials"`
	File         string      `json:"file"`
}

func runDictTrain(o dictTrainOptions) error {
	sizes, st, err := o.parse()
	if err != nil {
		return err
	}
	all, skipped, err := samples.Load(o.from)
	if err != nil {
		return err
	}
	if len(all) < minTrainSamples {
		return ui.WithHint(fmt.Errorf("%d samples are too few", len(all)), "give at least %d, better a thousand; a file of one value a line must be called .jsonl", minTrainSamples)
	}
	train, heldOut := samples.Split(all, heldOutOf)
	result := dictTraining{
		Samples: len(all), TrainedOn: len(train), MeasuredOn: len(heldOut), Skipped: skipped,
		Setting: st.String(), PlainBytes: samples.Bytes(heldOut), File: o.out,
	}
	engine := newEngine()
	result.WithoutBytes = storedBytes(engine, st, nil, heldOut)
	result.WithoutRatio = ratio(result.PlainBytes, result.WithoutBytes)
	if result.Trials, err = trainAll(engine, st, sizes, train, heldOut); err != nil {
		return err
	}
	best := result.markBest()
	if best.StoredBytes >= result.WithoutBytes {
		_ = result.write(o)
		return ui.WithHint(errors.New("no dictionary gains anything on the samples held out; nothing was written"), "are the samples alike, and are there enough of them?")
	}
	if err := dict.Save(o.out, best.dict); err != nil {
		return err
	}
	return result.write(o)
}

func (o dictTrainOptions) parse() (sizes []int, st codec.Setting, err error) {
	if _, err := os.Lstat(o.out); !errors.Is(err, fs.ErrNotExist) {
		return nil, st, ui.WithHint(fmt.Errorf("%s exists", o.out), "values may need the dictionary in it; choose another name")
	}
	if st, err = codec.ParseSetting(o.setting); err != nil {
		return nil, st, err
	}
	if st.Codec != codec.Zstd || st.Dict != 0 {
		return nil, st, ui.WithHint(fmt.Errorf("setting %s", st), "only zstd takes a dictionary: zstd-1 to zstd-22")
	}
	if o.size == "auto" {
		return autoSizes, st, nil
	}
	var size config.Bytes
	if err := size.UnmarshalText([]byte(o.size)); err != nil {
		return nil, st, err
	}
	if size < minDictSize || size > codec.MaxDictLen {
		return nil, st, fmt.Errorf("size %s: a dictionary has %d bytes to %d KiB", o.size, minDictSize, codec.MaxDictLen>>10)
	}
	return []int{int(size)}, st, nil
}

// newEngine takes libzstd where cgo was there to build it.
func newEngine() *codec.Engine {
	o := codec.Options{}
	if z, ok := libzstd.New(); ok {
		o.Zstd = z
	}
	return codec.New(o)
}

// minDictSize in bytes: below, zstd's tables leave no room for content.
const minDictSize = 512

// trainAll trains and measures one dictionary a size. Sizes that training
// fails for are left out; none at all is an error.
func trainAll(engine *codec.Engine, st codec.Setting, sizes []int, train, heldOut [][]byte) ([]dictTrial, error) {
	var trials []dictTrial
	var failed error
	for _, size := range sizes {
		d, err := dict.Train(train, dict.TrainOptions{MaxBytes: size})
		if err != nil {
			failed = err
			continue
		}
		t := dictTrial{TargetBytes: size, Dictionary: describeDict(d, ""), dict: d}
		t.StoredBytes = storedBytes(engine, st, d, heldOut)
		t.Ratio = ratio(samples.Bytes(heldOut), t.StoredBytes)
		trials = append(trials, t)
	}
	if len(trials) == 0 {
		return nil, ui.WithHint(fmt.Errorf("training failed: %w", failed), "give more samples, or samples that are more alike")
	}
	return trials, nil
}

// markBest finds the trial that stores least; of equals the smallest dictionary.
func (r *dictTraining) markBest() *dictTrial {
	best := &r.Trials[0]
	for i := range r.Trials {
		if r.Trials[i].StoredBytes < best.StoredBytes {
			best = &r.Trials[i]
		}
	}
	best.Best, best.Dictionary.Source = true, r.File
	return best
}

// oneDict is the only dictionary there is.
type oneDict struct{ d *codec.Dict }

func (o oneDict) Dictionary(uint32) (*codec.Dict, error) { return o.d, nil }

// storedBytes is what the values take when sealed, or as they are where that is less.
func storedBytes(engine *codec.Engine, st codec.Setting, d *codec.Dict, values [][]byte) int {
	o := cinch.SealerOptions{Engine: engine}
	if d != nil {
		o.Dicts, st.Dict = oneDict{d}, d.Number()
	}
	s, n := cinch.NewSealer(o), 0
	var buf []byte
	for _, v := range values {
		buf = s.Seal(buf[:0], v, st, nil)
		n += len(buf)
	}
	return n
}

func ratio(raw, stored int) float64 { return float64(raw) / float64(max(1, stored)) }

func (r dictTraining) write(o dictTrainOptions) error {
	if o.asJSON {
		return writeJSON(o.stdout, r)
	}
	fmt.Fprintf(o.stdout, "%d samples: trained on %d, measured on %d\n\n", r.Samples, r.TrainedOn, r.MeasuredOn)
	rows := [][]string{
		{"plain", "", "", strconv.Itoa(r.PlainBytes), "1.00", ""},
		{r.Setting, "", "", strconv.Itoa(r.WithoutBytes), fmt.Sprintf("%.2f", r.WithoutRatio), ""},
	}
	for _, t := range r.Trials {
		rows = append(rows, []string{
			r.Setting + " + dictionary", t.Dictionary.Number, strconv.Itoa(t.Dictionary.Bytes),
			strconv.Itoa(t.StoredBytes), fmt.Sprintf("%.2f", t.Ratio), map[bool]string{true: "best"}[t.Best],
		})
	}
	if err := ui.Table(o.stdout, []string{"", "dictionary", "its bytes", "stored bytes", "ratio", ""}, rows); err != nil {
		return err
	}
	if r.Skipped > 0 {
		fmt.Fprintf(o.stderr, "%d files were skipped: empty, or over %d MiB\n", r.Skipped, samples.MaxSampleBytes>>20)
	}
	return nil
}
