package dictionary

import (
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// sampleForFind returns documents in the order of their length, as plans have them, in a store that counts lengths.
func sampleForFind() Sample {
	values := documents(500, 0)
	slices.SortFunc(values, func(a, b []byte) int { return len(a) - len(b) })
	return Sample{
		Values: values, Bytes: 100e6, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Saving: 0.1,
		Cost:     func(raw, sealed int) (before, after int) { return raw, sealed },
		Worth:    func(raw, sealed int) bool { return sealed < raw },
		DictCost: func(d *codec.Dict) float64 { return float64(len(d.Content())) },
	}
}

// Find returns the dictionary of a gateway's thorough training on the same values, where the store's bytes are counted
// in the same way.
func TestFindIsAGatewaysTraining(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	trainer, s := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}), sampleForFind()
	found := trainer.Find(t.Context(), s)
	if found == nil {
		t.Fatal("none")
	}
	k := taskFor(t, mixed(s.Values))
	k.rule = &policy.Rule{Setting: s.Setting, Types: policy.Tuple} // counted by length
	got := trainer.train(t.Context(), k)
	if got.dict == nil || got.dict.Number() != found.Dict.Number() {
		t.Errorf("%d bytes, a gateway has %+v", len(found.Dict.Content()), got)
	}
	again, err := found.Again(documents(20, 0))
	if err != nil || again.Number() == found.Dict.Number() || len(again.Content()) > found.size {
		t.Errorf("from other values: %v, %v", again, err)
	}
	if _, err := found.Again(documents(3, 0)); err == nil {
		t.Error("a dictionary of three values")
	}
}

// A dictionary that costs more than it saves is not found, nor one that saves less than asked for.
func TestFindWeighsTheCost(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	for name, change := range map[string]func(*Sample){
		"few bytes":     func(s *Sample) { s.Bytes = 1000 },
		"no such gain":  func(s *Sample) { s.Saving = 0.95 },
		"it costs much": func(s *Sample) { s.DictCost = func(*codec.Dict) float64 { return 1e9 } },
		"no values":     func(s *Sample) { s.Values = nil },
		"never worth":   func(s *Sample) { s.Worth = func(int, int) bool { return false } },
	} {
		s := sampleForFind()
		change(&s)
		if found := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}).Find(t.Context(), s); found != nil {
			t.Errorf("%s: a dictionary of %d bytes", name, len(found.Dict.Content()))
		}
	}
}
