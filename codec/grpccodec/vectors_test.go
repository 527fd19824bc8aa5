package grpccodec_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// TestVectors reads messages of other implementations: bench/grpc/vectors describes these.
func TestVectors(t *testing.T) {
	want, err := os.ReadFile("testdata/message")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("testdata/*.*")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d vectors, %v", len(paths), err)
	}
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, path := range paths {
		packed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(filepath.Ext(path), ".")
		c, err := set.Compressor(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Decompress(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s as a stream: %d bytes and %v", path, len(got), err)
		}
		if got, err := set.AppendDecompress(nil, packed, name, len(want)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s as a whole: %d bytes and %v", path, len(got), err)
		}
	}
}

// Go's own gzip and Python's read Cinch's output. Decoders of other implementations are tested in bench/grpc,
// whose module has them.
func TestOthersReadGzip(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, n := range []int{0, 1, 70_000} {
		packed, err := set.AppendCompress(nil, message(n), "gzip")
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, message(n)) {
			t.Errorf("Go: %d bytes of %d, %v", len(got), n, err)
		}
		python(t, packed, message(n))
	}
}

func python(t *testing.T, packed, want []byte) {
	t.Helper()
	if testing.Short() {
		return // no program is started
	}
	cmd := exec.Command("python3", "-c", "import gzip,sys; sys.stdout.buffer.write(gzip.decompress(sys.stdin.buffer.read()))")
	cmd.Stdin = bytes.NewReader(packed)
	got, err := cmd.Output()
	var missing *exec.Error
	if errors.As(err, &missing) {
		if os.Getenv("CI") == "true" {
			t.Fatal("python3 is missing")
		}
		t.Log("python3 is missing and was not asked")
		return
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Error(fmt.Errorf("python: %d bytes of %d, %w", len(got), len(want), err))
	}
}
