package dict_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
)

// orders returns values as an application would write them, which serve as samples.
func orders(n int) (samples [][]byte) {
	dishes := []string{"dumplings", "noodle soup", "fried rice", "spring rolls"}
	for i := range n {
		samples = append(samples, fmt.Appendf(nil,
			`{"order":%d,"customer":%d,"dish":%q,"state":"delivered","currency":"EUR"}`,
			100000+37*i, i*i%9973, dishes[i%len(dishes)]))
	}
	return samples
}

// A dictionary is trained on three quarters of the samples, and evaluated on the rest.
func ExampleTrain() {
	learn, heldOut := dict.Split(orders(2000), 4)
	d, err := dict.Train(learn, dict.TrainOptions{Size: 4 << 10})
	switch {
	case errors.Is(err, dict.ErrSamples):
		log.Fatal("collect more values: ", err)
	case err != nil:
		log.Fatal(err)
	}

	engine := codec.New(codec.Options{})
	r, err := dict.Evaluate(engine, d, codec.Setting{Codec: codec.Zstd, Level: 3}, heldOut)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("values:", r.Values)
	fmt.Println("worth it:", r.Ratio() > 1.5*r.PlainRatio())
	// Output:
	// values: 500
	// worth it: true
}

// A dictionary is saved when it is made, and loaded at the next start.
func ExampleSave() {
	dir, err := os.MkdirTemp("", "dictionaries")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d, err := codec.NewDict([]byte(`{"order":,"customer":,"dish":"dumplings","state":"delivered"}`))
	if err != nil {
		log.Fatal(err)
	}

	path := filepath.Join(dir, fmt.Sprintf("%08x.dict", d.Number()))
	if err := dict.Save(path, d); errors.Is(err, fs.ErrExist) {
		log.Fatal("another dictionary is there, and values may need it: ", err)
	} else if err != nil {
		log.Fatal(err)
	}

	loaded, err := dict.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	var set dict.Set
	if err := set.Add(loaded); err != nil {
		log.Fatal(err)
	}
	_, ok := set.Get(d.Number())
	fmt.Println("found:", ok)
	// Output: found: true
}
