package corpora

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// TrainZstd trains a dictionary with zstd's own command: args are those of a way to train.
func TrainZstd(samples [][]byte, args ...string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "cinch-samples-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "dict")
	if err := os.Mkdir(in, 0o700); err != nil {
		return nil, err
	}
	for i, v := range samples {
		if err := os.WriteFile(filepath.Join(in, fmt.Sprint(i)), v, 0o600); err != nil {
			return nil, err
		}
	}
	if text, err := exec.Command("zstd", append(slices.Clone(args), "-q", "-3", "-r", in, "-o", out)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return os.ReadFile(out)
}

// Order makes an order of 160 bytes, as JSON.
func Order(r *rand.Rand) []byte {
	return fmt.Appendf(nil, `{"id":%d,"customer":"c%05d","status":"%s","currency":"EUR","total":%d.%02d,"items":%d,"created":"2026-11-%02dT%02d:%02d:%02dZ","channel":"%s","country":"%s"}`,
		r.IntN(1e9), r.IntN(50_000), []string{"open", "paid", "shipped", "returned"}[r.IntN(4)], r.IntN(900), r.IntN(100), r.IntN(9)+1,
		r.IntN(28)+1, r.IntN(24), r.IntN(60), r.IntN(60), []string{"web", "app", "shop"}[r.IntN(3)], []string{"DE", "FR", "NL", "IT", "ES"}[r.IntN(5)])
}
