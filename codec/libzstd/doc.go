// Package libzstd is zstd through cgo, for the binary. It is handed to
// codec.Options explicitly; where cgo is off, New reports false.
package libzstd
