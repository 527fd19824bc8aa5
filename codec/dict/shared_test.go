package dict

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// patients returns samples with much in common, each with a secret that is in one of them, in two, or in
// three.
func patients(n int) (samples [][]byte, secrets []string) {
	r := rand.New(rand.NewPCG(1, 2))
	secret := func() string { return fmt.Sprintf("%016x-%d", r.Uint64(), len(secrets)) }
	for len(samples) < n {
		s := secret()
		secrets = append(secrets, s)
		for range 1 + len(secrets)%3 {
			samples = append(samples, fmt.Appendf(nil, `{"patient":{"number":%d,"insurance":"%s"},"ward":"%s","currency":"EUR","diagnosis":{"code":"%s"}}`,
				r.IntN(1e9), s, []string{"surgery", "cardiology", "paediatrics"}[r.IntN(3)], s[:12]))
		}
	}
	r.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	return samples, secrets
}

// No algorithm makes a dictionary with strings of 8 bytes that fewer than three samples have, not even across
// the gaps where something was cut out.
func TestDictionariesHoldNothingRare(t *testing.T) {
	samples, secrets := patients(300)
	// A trainer that uses everything that fits, secrets included.
	greedy := func(samples [][]byte, size int) ([]byte, error) {
		all := bytes.Join(samples, nil)
		return all[:min(len(all), size)], nil
	}
	for _, o := range []TrainOptions{
		{Algorithm: Cover}, {Algorithm: Content}, {Algorithm: External, External: greedy}, {Algorithm: Content, Segment: 400},
	} {
		for _, o.Size = range []int{2 << 10, 16 << 10} {
			d, err := Train(samples, o)
			if err != nil {
				t.Fatal(o.Algorithm, err)
			}
			content := contentOf(d.Content())
			in := make(map[string]int)
			for at := 0; at+dmerLen <= len(content); at++ {
				dmer := content[at : at+dmerLen]
				if _, known := in[string(dmer)]; known {
					continue
				}
				n := 0
				for _, s := range samples {
					if bytes.Contains(s, dmer) {
						n++
					}
				}
				if in[string(dmer)] = n; n > 0 && n < leastSamples {
					t.Errorf("%s, %d bytes: %q is in %d samples", o.Algorithm, o.Size, dmer, n)
				}
			}
			if !bytes.Contains(content, []byte(`"currency":"EUR"`)) {
				t.Errorf("%s, %d bytes: what all have is missing", o.Algorithm, o.Size)
			}
			if o.Size > 8<<10 && !slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(string(content), s[:12]) }) {
				t.Errorf("%s: nothing is there that three have", o.Algorithm)
			}
		}
	}
}

// The same holds whatever bytes samples are made of, separators too.
func TestMaskedHoldsNothingRare(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		letters := []byte{separator, 'a', 'b', 'c', 'd', 'e', 'f', 'g'}[:2+r.IntN(7)]
		parts := make([][]byte, 12)
		for i := range parts {
			for range 3 + r.IntN(20) {
				parts[i] = append(parts[i], letters[r.IntN(len(letters))])
			}
		}
		var samples [][]byte
		for range 20 {
			var sample []byte
			for range 1 + r.IntN(8) {
				if sample = append(sample, parts[r.IntN(len(parts))]...); r.IntN(3) == 0 {
					sample = fmt.Append(sample, r.IntN(1e6))
				}
			}
			samples = append(samples, sample)
		}
		got := shared(bytes.Join(samples, nil), samples, 4<<10)
		for at := 0; at+dmerLen <= len(got); at++ {
			n := 0
			for _, sample := range samples {
				if bytes.Contains(sample, got[at:at+dmerLen]) {
					n++
				}
			}
			if n > 0 && n < leastSamples && bytes.Count(got[at:at+dmerLen], []byte{separator}) < dmerLen {
				t.Fatalf("seed %d: %q is in %d samples", seed, got[at:at+dmerLen], n)
			}
		}
	}
}

// What is masked leaves the distance between what stands before and after it.
func TestMaskKeepsDistances(t *testing.T) {
	var samples [][]byte
	for i := range 1000 {
		samples = append(samples, fmt.Appendf(nil, `{"customer":"c%05d","currency":"EUR"}`, i*99991%100_000))
	}
	got := shared(samples[500], samples, 1<<10)
	want := samples[500]
	if len(got) != len(want) || bytes.Count(got, []byte{separator}) != 1 || !bytes.HasPrefix(got, want[:len(`{"customer":"c`)]) || !bytes.HasSuffix(got, []byte(`","currency":"EUR"}`)) {
		t.Errorf("%q became %q", want, got)
	}
}

// contentOf returns a dictionary's content without its tables.
func contentOf(content []byte) []byte {
	if d, err := zstd.InspectDictionary(content); err == nil {
		return d.Content()
	}
	return content
}

// Samples with nothing in common give no dictionary, rather than one of secrets.
func TestNothingInCommon(t *testing.T) {
	var samples [][]byte
	r := rand.NewChaCha8([32]byte{5})
	for range 50 {
		b := make([]byte, 200)
		_, _ = r.Read(b)
		samples = append(samples, b, b)
	}
	for _, a := range []Algorithm{Cover, Content} {
		if d, err := Train(samples, TrainOptions{Algorithm: a}); err == nil {
			t.Errorf("%s: a dictionary of %d bytes", a, len(d.Content()))
		}
	}
}
