package dict_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/dict"
)

// Training and evaluation data have different seeds: no value is in both.
func trainingSamples() [][]byte { return codectest.Documents(codectest.Amount(500, 500, 1500), 1) }
func heldOut() [][]byte         { return codectest.Documents(300, 2) }

var algorithms = []dict.Algorithm{dict.Cover, dict.Content}

func TestTrainPays(t *testing.T) {
	e := codec.New(codec.Options{})
	for _, a := range algorithms {
		for _, size := range codectest.Amount([]int{2 << 10}, []int{1 << 10, 16 << 10}, []int{1 << 10, 4 << 10, 16 << 10, 64 << 10}) {
			d, err := dict.Train(trainingSamples(), dict.TrainOptions{Size: size, Algorithm: a})
			if err != nil {
				t.Fatalf("%s, %d bytes: %v", a, size, err)
			}
			if n := len(d.Content()); n > size {
				t.Errorf("%s: a dictionary of %d bytes, want at most %d", a, n, size)
			}
			if trained := a != dict.Content; d.Trained() != trained {
				t.Errorf("%s, %d bytes: trained: %t", a, size, d.Trained())
			}
			r, err := dict.Evaluate(e, d, codec.Setting{Codec: codec.Zstd, Level: 3}, heldOut())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %d of %d bytes: %.2f, without %.2f", a, len(d.Content()), size, r.Ratio(), r.PlainRatio())
			if r.Ratio() < 1.4*r.PlainRatio() {
				t.Errorf("%s, %d bytes: ratio %.2f, without %.2f", a, size, r.Ratio(), r.PlainRatio())
			}
			if r.Values != 300 || r.RawBytes == 0 || r.Compress <= 0 || r.Decompress <= 0 {
				t.Errorf("%s: report %+v", a, r)
			}
		}
	}
}

func TestTrainIsDeterministic(t *testing.T) {
	for _, a := range []dict.Algorithm{dict.Cover, dict.Content} {
		var first *codec.Dict
		for range codectest.Amount(2, 2, 3) {
			d, err := dict.Train(trainingSamples(), dict.TrainOptions{Algorithm: a})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = d
			}
			if d.Hash() != first.Hash() {
				t.Errorf("%s: two dictionaries from the same samples", a)
			}
		}
	}
}

// TestTrainOddSamples expects a dictionary or an error, never a panic.
func TestTrainOddSamples(t *testing.T) {
	repeat := func(sample []byte, n int) [][]byte {
		all := make([][]byte, n)
		for i := range all {
			all[i] = sample
		}
		return all
	}
	random := func(n, count int) (all [][]byte) {
		for i := range count {
			all = append(all, codectest.Random(n, uint64(i)))
		}
		return all
	}
	cases := map[string]struct {
		samples [][]byte
		fails   bool
	}{
		"none":                  {nil, true},
		"one":                   {repeat(codectest.JSON(300, 1), 1), true},
		"seven":                 {codectest.Documents(7, 1), true},
		"empty":                 {repeat(nil, 100), true},
		"seven bytes":           {repeat([]byte("1234567"), 100), true},
		"eight bytes":           {repeat([]byte("12345678"), 100), true},
		"identical":             {repeat(codectest.JSON(300, 1), 100), false},
		"identical zeros":       {repeat(make([]byte, 5000), 100), false},
		"one long, empty rest":  {append(repeat(nil, 50), codectest.JSON(codectest.Amount(100_000, 100_000, 1<<20), 1)), true},
		"with empties":          {append(repeat(nil, 50), codectest.Documents(50, 1)...), false},
		"eight":                 {codectest.Documents(8, 1), false},
		"long":                  {repeat(codectest.JSON(codectest.Amount(20_000, 20_000, 300_000), 1), 9), false},
		"two sorts, one random": {append(random(300, 100), codectest.Documents(100, 1)...), false},
	}
	// Random samples may have something in common by chance: any result but a panic is fine.
	for _, samples := range [][][]byte{random(300, 100), random(codectest.Amount(4000, 4000, 20_000), 20)} {
		for _, a := range algorithms {
			if _, err := dict.Train(samples, dict.TrainOptions{Algorithm: a}); err != nil && !errors.Is(err, dict.ErrSamples) {
				t.Errorf("random, %s: an error without a class: %v", a, err)
			}
		}
	}
	for name, c := range cases {
		for _, a := range algorithms {
			for _, size := range codectest.Amount([]int{4096}, []int{1024, 16_000}, []int{1024, 100_000}) {
				for _, level := range codectest.Amount([]int{1}, []int{1}, []int{1, 22}) {
					d, err := dict.Train(c.samples, dict.TrainOptions{Size: size, Algorithm: a, Level: level})
					if err != nil && !errors.Is(err, dict.ErrSamples) {
						t.Errorf("%s, %s, %d: an error without a class: %v", name, a, size, err)
					}
					if fails := err != nil; fails != c.fails {
						t.Errorf("%s, %s, %d: %v", name, a, size, err)
					}
					if d != nil && len(d.Content()) > size {
						t.Errorf("%s, %s, %d: %d bytes", name, a, size, len(d.Content()))
					}
				}
			}
		}
	}
}

func TestTrainPanicIsAnError(t *testing.T) {
	o := dict.TrainOptions{Algorithm: dict.External, External: func([][]byte, int) ([]byte, error) { panic("bug") }}
	if _, err := dict.Train(trainingSamples(), o); !errors.Is(err, dict.ErrSamples) {
		t.Errorf("%v", err)
	}
}

func TestTrainOptions(t *testing.T) {
	for name, o := range map[string]dict.TrainOptions{
		"too small":      {Size: 1023},
		"too large":      {Size: codec.MaxDictLen + 1},
		"level":          {Level: 23},
		"algorithm":      {Algorithm: 9},
		"external":       {Algorithm: dict.External},
		"segment":        {Segment: 7},
		"large segment":  {Size: 2000, Segment: 2001},
		"negative size":  {Size: -1},
		"negative level": {Level: -1},
	} {
		if _, err := dict.Train(trainingSamples(), o); !errors.Is(err, codec.ErrDictionary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTrainUsesSamplesFromAllOver checks that samples at the end count too if there are a hundred times too
// many.
func TestTrainUsesSamplesFromAllOver(t *testing.T) {
	given := 0
	o := dict.TrainOptions{Size: 1024, Algorithm: dict.External}
	o.External = func(samples [][]byte, size int) ([]byte, error) {
		for _, s := range samples {
			given += len(s)
		}
		if !bytes.Contains(samples[len(samples)-1], []byte("last")) && !bytes.Contains(samples[len(samples)-2], []byte("last")) {
			t.Error("samples from the end are missing")
		}
		return bytes.Join(samples, nil)[:size], nil
	}
	samples := codectest.Documents(30_000, 1)
	for i := range samples[29_000:] {
		samples[29_000+i] = append(samples[29_000+i], "last"...)
	}
	if _, err := dict.Train(samples, o); err != nil {
		t.Fatal(err)
	}
	if given > 1<<20 || given < 1_000_000 {
		t.Errorf("%d bytes of samples, want nearly 1 MiB", given)
	}
}

// Dictionaries that are cut from one selection are as good as those for which content is selected anew.
func TestSelection(t *testing.T) {
	e, st := codec.New(codec.Options{}), codec.Setting{Codec: codec.Zstd, Level: 3}
	o := dict.TrainOptions{Size: 32 << 10, Segment: 128}
	s, err := dict.Select(trainingSamples(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 32 << 10, codec.MaxDictLen} {
		cut, err := s.Dict(size)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(cut.Content()); n > size || n > s.Len()+1<<10 {
			t.Errorf("%d bytes, want at most %d", n, size)
		}
		o.Size = size
		alone, err := dict.Train(trainingSamples(), o)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := dict.Evaluate(e, cut, st, heldOut())
		b, _ := dict.Evaluate(e, alone, st, heldOut())
		t.Logf("%d bytes: %.3f, alone %.3f", size, a.Ratio(), b.Ratio())
		if a.Ratio() < 0.97*b.Ratio() {
			t.Errorf("%d bytes: %.3f, alone %.3f", size, a.Ratio(), b.Ratio())
		}
	}
	if _, err := dict.Select(nil, o); !errors.Is(err, dict.ErrSamples) {
		t.Errorf("no samples: %v", err)
	}
	if _, err := s.Dict(1023); !errors.Is(err, codec.ErrDictionary) {
		t.Errorf("1023 bytes: %v", err)
	}
}

func TestEvaluate(t *testing.T) {
	e := codec.New(codec.Options{})
	d := codectest.NewDict(t, codectest.JSON(4000, 1))
	if _, err := dict.Evaluate(e, d, codec.Setting{Codec: codec.Zstd}, nil); !errors.Is(err, dict.ErrSamples) {
		t.Errorf("nothing held out: %v", err)
	}
	if _, err := dict.Evaluate(e, d, codec.Setting{Codec: codec.LZ4}, heldOut()); !errors.Is(err, codec.ErrSetting) {
		t.Errorf("lz4: %v", err)
	}
	r, err := dict.Evaluate(e, d, codec.Setting{Codec: codec.Zstd}, [][]byte{codectest.Random(500, 1), nil})
	if err != nil || r.DictBytes != 500 || r.PlainBytes != 500 || r.Ratio() != 1 {
		t.Errorf("values that don't compress: %+v, %v", r, err)
	}
}

func TestSearch(t *testing.T) {
	e := codec.New(codec.Options{})
	options := dict.Candidates(3, nil)
	options = append(options, dict.TrainOptions{}, dict.TrainOptions{Size: 1 << 30}, dict.TrainOptions{Size: 1}) // the last two fail
	best, all, err := dict.Search(e, trainingSamples(), codec.Setting{Codec: codec.Zstd, Level: 3}, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(options) {
		t.Fatalf("%d candidates of %d", len(all), len(options))
	}
	for i, c := range all {
		if fails := c.Err != nil; fails != (i >= len(all)-2) {
			t.Errorf("candidate %d: %v", i, c.Err)
		}
	}
	for _, c := range all {
		if c.Err != nil {
			continue
		}
		t.Logf("%s, %d bytes: %.3f, %v", c.Options.Algorithm, len(c.Dict.Content()), c.Report.Ratio(), c.Report.Compress)
		if c.Report.DictBytes*201 < best.Report.DictBytes*200 {
			t.Errorf("%s, %d bytes is better than the best", c.Options.Algorithm, c.Options.Size)
		}
	}
	if _, _, err := dict.Search(e, codectest.Documents(5, 1), codec.Setting{Codec: codec.Zstd}, options, nil); !errors.Is(err, dict.ErrSamples) {
		t.Errorf("five samples: %v", err)
	}
}
