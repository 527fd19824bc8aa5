//go:build cgo

package libzstd_test

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

// TestTrainers compares the trainers on values they have not seen: libzstd's must work, and Cinch's must not
// be worse.
func TestTrainers(t *testing.T) {
	e := codec.New(codec.Options{Zstd: newCoder(t)})
	heldOut := codectest.Documents(500, 2)
	samples := codectest.Documents(codectest.Amount(1000, 1500, 3000), 1)
	for _, size := range codectest.Amount([]int{8 << 10}, []int{2 << 10, 32 << 10}, []int{2 << 10, 8 << 10, 32 << 10, 110 << 10}) {
		ratio := make(map[dict.Algorithm]float64)
		for _, a := range codectest.Amount([]dict.Algorithm{dict.Cover, dict.External}, []dict.Algorithm{dict.Cover, dict.External},
			[]dict.Algorithm{dict.Cover, dict.Content, dict.External}) {
			d, err := dict.Train(samples, dict.TrainOptions{Size: size, Algorithm: a, External: libzstd.Train})
			if err != nil {
				t.Fatalf("%s: %v", a, err)
			}
			r, err := dict.Evaluate(e, d, codec.Setting{Codec: codec.Zstd, Level: 3}, heldOut)
			if err != nil {
				t.Fatal(err)
			}
			ratio[a] = r.Ratio()
			t.Logf("%s, %d of %d bytes: %.3f, without %.3f", a, len(d.Content()), size, r.Ratio(), r.PlainRatio())
		}
		if ratio[dict.Cover] < 0.97*ratio[dict.External] {
			t.Errorf("%d bytes: ratio %.3f, libzstd's trainer gives %.3f", size, ratio[dict.Cover], ratio[dict.External])
		}
	}
}

func TestTrainOddSamples(t *testing.T) {
	for name, samples := range map[string][][]byte{
		"none":      nil,
		"empty":     {nil, nil},
		"one":       {codectest.JSON(100, 1)},
		"random":    {codectest.Random(1000, 1), codectest.Random(1000, 2)},
		"identical": {codectest.JSON(500, 1), codectest.JSON(500, 1), codectest.JSON(500, 1)},
	} {
		if content, err := libzstd.Train(samples, 1000); (err == nil) != (len(content) > 0) {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
}

// TestManyDictionaries uses more dictionaries concurrently than are kept prepared.
func TestManyDictionaries(t *testing.T) {
	z := newCoder(t)
	var all []*codec.Dict
	for i := range 80 {
		all = append(all, codectest.NewDict(t, codectest.JSON(2000, uint64(i))))
	}
	done := make(chan bool)
	for worker := range 4 {
		go func() {
			defer func() { done <- true }()
			for i := range 400 {
				d := all[(i*(worker+1))%len(all)]
				value := codectest.JSON(500, uint64(i))
				payload, err := z.Compress(nil, value, 1+i%2, d)
				if err != nil {
					t.Error(err)
					return
				}
				out, err := z.Decompress(nil, payload, len(value), d)
				if err != nil || string(out) != string(value) {
					t.Errorf("came back wrong: %v", err)
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
}
