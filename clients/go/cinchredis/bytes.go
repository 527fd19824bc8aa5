package cinchredis

import "unsafe"

// bytesOf returns the bytes of a string without copying. They must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// stringOf returns bytes as a string without copying. They must not change while it is in use.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
