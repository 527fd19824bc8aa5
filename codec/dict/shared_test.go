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
