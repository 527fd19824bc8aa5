// Command vectors writes the test vectors of codec/grpccodec: one message, compressed by other libraries.
//
//	cd bench/grpc && go run ./vectors
//
// go-grpc-compression writes zstd, snappy, lz4 and s2. golang/snappy writes what dskit sends, and klauspost's
// s2 what Mimir sends. gzip is written by grpc-go, Python and, if Java is installed, java.util.zip. The
// vectors are frozen: run this only to add some.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/s2"
	_ "github.com/mostynb/go-grpc-compression/experimental/s2"
	_ "github.com/mostynb/go-grpc-compression/lz4"
	_ "github.com/mostynb/go-grpc-compression/snappy"
	_ "github.com/mostynb/go-grpc-compression/zstd"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip"
)

func main() {
	dir := flag.String("dir", "../../codec/grpccodec/testdata", "output directory")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// message returns a message that is longer than the smallest block of every library and repeats a lot.
func message() []byte {
	var b []byte
	for i := 0; len(b) < 150_000; i++ {
		b = fmt.Appendf(b, "series{pod=%q,le=\"%d\"} %d\n", fmt.Sprintf("api-%d", i%37), i%11, i*i%1009)
	}
	return b
}

func run(dir string) error {
	raw := message()
	if err := os.WriteFile(filepath.Join(dir, "message"), raw, 0o644); err != nil {
		return err
	}
	var errs []error
	save := func(name string, packed []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), packed, 0o644)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, name := range []string{"zstd", "snappy", "lz4", "s2"} {
		packed, err := compressBy(name, raw)
		save("go-grpc-compression."+name, packed, err)
	}
	packed, err := compressBy("gzip", raw)
	save("grpc-go.gzip", packed, err)
	packed, err = written(func(w io.Writer) io.WriteCloser { return snappy.NewBufferedWriter(w) }, raw)
	save("dskit.snappy", packed, err)
	packed, err = written(func(w io.Writer) io.WriteCloser { return s2.NewWriter(w, s2.WriterConcurrency(1)) }, raw)
	save("mimir.s2", packed, err)
	packed, err = command(raw, "python3", "-c", "import gzip,sys; sys.stdout.buffer.write(gzip.compress(sys.stdin.buffer.read(), mtime=0))")
	save("python.gzip", packed, err)
	if packed, err = javaGzip(raw); !errors.Is(err, exec.ErrNotFound) {
		save("java.gzip", packed, err)
	}
	return errors.Join(errs...)
}

func compressBy(name string, raw []byte) ([]byte, error) {
	c := encoding.GetCompressor(name)
	if c == nil {
		return nil, errors.New("not registered")
	}
	var out bytes.Buffer
	w, err := c.Compress(&out)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(raw)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

func written(open func(io.Writer) io.WriteCloser, raw []byte) ([]byte, error) {
	var out bytes.Buffer
	w := open(&out)
	_, err := w.Write(raw)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

func command(in []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

const javaSource = `
public class Gzip {
    public static void main(String[] args) throws Exception {
        try (var out = new java.util.zip.GZIPOutputStream(System.out)) { System.in.transferTo(out); }
    }
}`

// javaGzip does what grpc-java does: it uses java.util.zip.
func javaGzip(in []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "cinch-vectors-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "Gzip.java")
	if err := os.WriteFile(file, []byte(javaSource), 0o600); err != nil {
		return nil, err
	}
	return command(in, "java", file)
}
