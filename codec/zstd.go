package codec

// GoZstd is zstd in pure Go.
type GoZstd struct{}

// NewGoZstd returns zstd in pure Go.
func NewGoZstd() *GoZstd { return &GoZstd{} }

// Name returns "go".
func (z *GoZstd) Name() string { return "go" }

// Compress implements [ZstdCoder].
func (z *GoZstd) Compress(dst, src []byte, level int, d *Dict) ([]byte, error) {
	return dst, ErrUnknownCodec
}

// Decompress implements [ZstdCoder].
func (z *GoZstd) Decompress(dst, src []byte, rawLen int, d *Dict) ([]byte, error) {
	return dst, ErrUnknownCodec
}
