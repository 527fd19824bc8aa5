package main

import (
	"fmt"
	"strconv"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/rig"
)

// The effect of compression levels with and without a dictionary: codecs only, no gateway.

const (
	levelsLearn   = 5000 // documents of the stream
	levelsMeasure = 1500
)

func (o *options) measureLevels() error {
	words, err := loadVocabulary(o.cache)
	if err != nil {
		return err
	}
	stream := documents{name: "stream, first shape"}
	for i := range levelsLearn + levelsMeasure {
		doc := words.document(0, i)
		if i < levelsLearn {
			stream.learn = append(stream.learn, doc)
		} else {
			stream.measure = append(stream.measure, doc)
		}
	}
	packages, err := loadDocuments(o.cache)
	if err != nil {
		return err
	}
	var b rig.Table
	b.Row("documents", "level", "zstd: stored by raw", "with a dictionary", "µs a value, with it")
	b.Rule(5)
	for _, docs := range append([]documents{stream}, packages[0], packages[1]) {
		if err := addLevels(&b, &docs); err != nil {
			return err
		}
	}
	return o.report("levels", b.String())
}

func addLevels(b *rig.Table, docs *documents) error {
	z, ok := libzstd.New()
	if !ok {
		return fmt.Errorf("libzstd is needed to measure levels: build with cgo")
	}
	d, err := dict.Train(docs.learn, dict.TrainOptions{Size: 112 << 10})
	if err != nil {
		return err
	}
	engine := codec.New(codec.Options{Zstd: z})
	for _, level := range []int{1, 3, 6, 9, 15} {
		r, err := dict.Evaluate(engine, d, codec.Setting{Codec: codec.Zstd, Level: level}, docs.measure)
		if err != nil {
			return err
		}
		b.Row(docs.name, strconv.Itoa(level), fmt.Sprintf("%.3f", 1/r.PlainRatio()), fmt.Sprintf("%.3f", 1/r.Ratio()), fmt.Sprintf("%.0f", float64(r.Compress.Nanoseconds())/1000))
	}
	return nil
}
