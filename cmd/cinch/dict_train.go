package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/estimate/samples"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// minTrainSamples is the minimum: fewer say nothing about future values.
const minTrainSamples = 12

// heldOutOf matches dict.Search: one sample in so many is used for measuring.
const heldOutOf = 4

type dictTrainOptions struct {
	from    []string
	out     string
	size    string // "auto" or a size
	setting string
	zstd    string
	asJSON  bool

	stdout, stderr io.Writer
}

func newDictTrainCommand() *cobra.Command {
	var o dictTrainOptions
	cmd := &cobra.Command{
		Use:   "train --out FILE {FILE | DIR | FILE.jsonl}…",
		Short: "Train a dictionary from sample values",
		Long: `Train a dictionary from sample values: each file, each file below a directory, each line of a .jsonl file.

It trains on three quarters of the samples, and measures on the other quarter how many bytes would be stored plain, with
zstd, and with zstd and the dictionary. Headers are included; values that gain nothing count as plain. It tries several
algorithms, and several sizes unless you give one: bigger is often worse.`,
		Example: `  cinch dict train --out orders.dict orders.jsonl
  cinch dict train --out menus.dict --size 16KiB --setting zstd-9 samples/menus`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.from, o.stdout, o.stderr = args, cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runDictTrain(o)
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "`FILE` to write; it must not exist")
	cmd.Flags().StringVar(&o.size, "size", "auto", "`SIZE` of the dictionary; auto tries several and keeps the best")
	cmd.Flags().StringVar(&o.setting, "setting", "zstd-3", "`SETTING` to measure the dictionary with")
	cmd.Flags().StringVar(&o.zstd, "zstd", "", zstdFlag)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

// dictTrial is one dictionary with its results on the held-out samples. Sizes are in bytes. Its JSON is a
// contract: fields are added, never renamed.
type dictTrial struct {
	Algorithm   string   `json:"algorithm"`
	TargetBytes int      `json:"target_bytes"` // the requested size
	Dictionary  dictInfo `json:"dictionary"`
	StoredBytes int      `json:"stored_bytes"`
	Ratio       float64  `json:"ratio"`
	Best        bool     `json:"best"`
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
	File         string      `json:"file,omitempty"` // the file written
}

func runDictTrain(o dictTrainOptions) error {
	engine, _, err := engineWithout(o.zstd)
	if err != nil {
		return err
	}
	st, candidates, err := o.parse(engine)
	if err != nil {
		return wrongUsage(err)
	}
	all, skipped, err := samples.Load(o.from)
	if err != nil {
		return err
	}
	if len(all) < minTrainSamples {
		return terminal.WithHint(fmt.Errorf("%d samples are too few", len(all)), "give at least %d, better a thousand; the name of a file with one value a line must end in .jsonl", minTrainSamples)
	}
	samples.Shuffle(all)
	bar := terminal.NewProgress(o.stderr)
	best, tried, err := dict.Search(engine, all, st, candidates, func(done int, next dict.TrainOptions) {
		bar.Show(float64(done)/float64(len(candidates)), fmt.Sprintf("training %s, %s", algorithmName(next.Algorithm), terminal.Size(int64(next.Size))))
	})
	bar.Clear()
	if err != nil {
		return terminal.WithHint(err, "give more samples, or samples that are more alike")
	}
	train, heldOut := dict.Split(all, heldOutOf)
	result := dictTraining{
		Samples: len(all), TrainedOn: len(train), MeasuredOn: len(heldOut), Skipped: skipped,
		Setting: st.String(), PlainBytes: samples.Bytes(heldOut), WithoutBytes: samples.Stored(engine, st, nil, heldOut),
	}
	result.WithoutRatio = ratio(result.PlainBytes, result.WithoutBytes)
	gains := result.addTrials(engine, st, best, tried, heldOut)
	if !gains {
		err = terminal.WithHint(errors.New("no dictionary saves bytes on the samples held out to measure it; nothing was written"), "give more samples, or samples that are more alike")
	} else if err = dict.Save(o.out, best.Dict); err == nil {
		result.File = o.out
	}
	return errors.Join(result.write(o), err)
}

// addTrials measures the candidates and reports whether the best is better than no dictionary.
func (r *dictTraining) addTrials(engine *codec.Engine, st codec.Setting, best dict.Candidate, tried []dict.Candidate, heldOut [][]byte) (gains bool) {
	seen := map[uint32]bool{} // with few samples, larger sizes give the same dictionary again
	for _, c := range tried {
		if c.Err != nil || seen[c.Dict.Number()] {
			continue
		}
		seen[c.Dict.Number()] = true
		t := dictTrial{Algorithm: algorithmName(c.Options.Algorithm), TargetBytes: c.Options.Size, Dictionary: describeDict(c.Dict, "")}
		t.StoredBytes = samples.Stored(engine, st, c.Dict, heldOut)
		t.Ratio = ratio(r.PlainBytes, t.StoredBytes)
		if t.Best = c.Dict.Number() == best.Dict.Number(); t.Best {
			gains = t.StoredBytes < r.WithoutBytes
		}
		r.Trials = append(r.Trials, t)
	}
	return gains
}

func algorithmName(a dict.Algorithm) string {
	if a == dict.External {
		return "libzstd"
	}
	return a.String()
}

func (o dictTrainOptions) parse(e *codec.Engine) (st codec.Setting, candidates []dict.TrainOptions, err error) {
	if _, err := os.Lstat(o.out); !errors.Is(err, fs.ErrNotExist) {
		return st, nil, terminal.WithHint(fmt.Errorf("%s exists", o.out), "values may need the dictionary in it; choose another name")
	}
	if st, err = codec.ParseSetting(o.setting); err != nil {
		return st, nil, terminal.WithHint(fmt.Errorf("--setting: %w", err), "write zstd and a level, as in zstd-3")
	}
	if st.Codec != codec.Zstd || st.Dict != 0 {
		return st, nil, terminal.WithHint(fmt.Errorf("setting %s", st), "only zstd supports dictionaries: zstd-1 to zstd-22")
	}
	candidates = dict.Candidates(st.Level, trainerOf(e))
	if o.size == "auto" {
		return st, candidates, nil
	}
	var size config.Bytes
	if err := size.UnmarshalText([]byte(o.size)); err != nil {
		return st, nil, fmt.Errorf("--size: %w", err)
	}
	if size < minDictSize || size > codec.MaxDictLen {
		return st, nil, fmt.Errorf("--size %s: write a size from %d bytes to %d KiB", o.size, minDictSize, codec.MaxDictLen>>10)
	}
	return st, oneSize(candidates, int(size)), nil
}

// oneSize keeps one candidate per algorithm and sets its size.
func oneSize(candidates []dict.TrainOptions, size int) []dict.TrainOptions {
	var all []dict.TrainOptions
	for _, c := range candidates {
		if c.Size == candidates[0].Size {
			c.Size = size
			all = append(all, c)
		}
	}
	return all
}

// minDictSize in bytes: below it, zstd's tables leave no room for content.
const minDictSize = 512

func ratio(raw, stored int) float64 { return float64(raw) / float64(max(1, stored)) }

func (r dictTraining) write(o dictTrainOptions) error {
	if o.asJSON {
		return writeJSON(o.stdout, r)
	}
	fmt.Fprintf(o.stdout, "%d samples: trained on %d, measured on %d\n\n", r.Samples, r.TrainedOn, r.MeasuredOn)
	rows := [][]string{
		{"plain", "", "", "", strconv.Itoa(r.PlainBytes), "1.00", ""},
		{r.Setting, "", "", "", strconv.Itoa(r.WithoutBytes), fmt.Sprintf("%.2f", r.WithoutRatio), ""},
	}
	for _, t := range r.Trials {
		rows = append(rows, []string{
			r.Setting + " + dictionary", t.Dictionary.Number, t.Algorithm, strconv.Itoa(t.Dictionary.Bytes),
			strconv.Itoa(t.StoredBytes), fmt.Sprintf("%.2f", t.Ratio), map[bool]string{true: "best"}[t.Best],
		})
	}
	if err := terminal.Table(o.stdout, []string{"", "dictionary", "algorithm", "its bytes", "stored bytes", "ratio", ""}, rows); err != nil {
		return err
	}
	if r.File != "" {
		terminal.Note(o.stderr, "wrote %s\n", r.File)
	}
	if r.Skipped > 0 {
		fmt.Fprintf(o.stderr, "%d files or lines were skipped: empty, or over %d MiB\n", r.Skipped, samples.MaxSampleBytes>>20)
	}
	return nil
}
