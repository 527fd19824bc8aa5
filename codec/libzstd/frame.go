//go:build cgo

package libzstd

/*
#include <stddef.h>

// gozstd has no streams that know how long the value is, and copies everything twice. So these
// few functions of the library that it links are called directly: the declarations are zstd.h's.
typedef struct ZSTD_CCtx_s ZSTD_CCtx;
typedef struct { const void* src; size_t size, pos; } ZSTD_inBuffer;
typedef struct { void* dst; size_t size, pos; } ZSTD_outBuffer;
typedef struct { unsigned windowLog, chainLog, hashLog, searchLog, minMatch, targetLength; int strategy; } ZSTD_compressionParameters;
ZSTD_CCtx* ZSTD_createCCtx(void);
size_t ZSTD_freeCCtx(ZSTD_CCtx*);
size_t ZSTD_sizeof_CCtx(const ZSTD_CCtx*);
size_t ZSTD_CCtx_reset(ZSTD_CCtx*, int);
size_t ZSTD_CCtx_setParameter(ZSTD_CCtx*, int, int);
size_t ZSTD_CCtx_setPledgedSrcSize(ZSTD_CCtx*, unsigned long long);
size_t ZSTD_compressStream2(ZSTD_CCtx*, ZSTD_outBuffer*, ZSTD_inBuffer*, int);
unsigned ZSTD_isError(size_t);
const char* ZSTD_getErrorName(size_t);
ZSTD_compressionParameters ZSTD_getCParams(int, unsigned long long, size_t);
size_t ZSTD_estimateCCtxSize_usingCParams(ZSTD_compressionParameters);

enum { resetAll = 3, level = 100, stableInput = 1006, more = 0, last = 2 };

// begin prepares c for a frame of srcSize bytes, which stay where they are.
static size_t begin(ZSTD_CCtx* c, int lvl, unsigned long long srcSize) {
	size_t r = ZSTD_CCtx_reset(c, resetAll);
	if (!ZSTD_isError(r)) r = ZSTD_CCtx_setParameter(c, level, lvl);
	if (!ZSTD_isError(r)) r = ZSTD_CCtx_setParameter(c, stableInput, 1);
	if (!ZSTD_isError(r)) r = ZSTD_CCtx_setPledgedSrcSize(c, srcSize);
	return r;
}

typedef struct { size_t result, in, out; } progress;

static progress step(ZSTD_CCtx* c, void* dst, size_t room, const void* src, size_t size, size_t pos, int end) {
	ZSTD_inBuffer in = { src, size, pos };
	ZSTD_outBuffer out = { dst, room, 0 };
	progress p;
	p.result = ZSTD_compressStream2(c, &out, &in, end);
	p.in = in.pos;
	p.out = out.pos;
	return p;
}

static size_t contextBytes(int lvl, unsigned long long srcSize) {
	return ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(lvl, srcSize, 0));
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// frameWriter writes a frame with libzstd, reading directly from the value's memory. The library keeps that
// address between calls, so the value is pinned until Close.
type frameWriter struct {
	context *context
	value   []byte
	pinned  runtime.Pinner
	pos     int // bytes of value that the library has taken
}

// context is a compression context of the library's. It is freed at the latest when it is garbage collected.
type context struct {
	zstd    *C.ZSTD_CCtx
	cleanup runtime.Cleanup
}

// contexts holds idle contexts; the garbage collector removes them. Making one costs a fifth of compressing 1
// MiB.
var contexts sync.Pool

// maxKeptContext limits the size in bytes of a context to keep.
const maxKeptContext = 8 << 20

func newContext() *context {
	if c, ok := contexts.Get().(*context); ok {
		return c
	}
	c := &context{zstd: C.ZSTD_createCCtx()}
	c.cleanup = runtime.AddCleanup(c, func(z *C.ZSTD_CCtx) { C.ZSTD_freeCCtx(z) }, c.zstd)
	return c
}

// free frees the context at once: the garbage collector does not see its memory, and might be late.
func (c *context) free() {
	c.cleanup.Stop()
	C.ZSTD_freeCCtx(c.zstd)
}

func (c *context) bytes() int { return int(C.ZSTD_sizeof_CCtx(c.zstd)) }

func (*coder) NewFrameWriter(value []byte, level int) (codec.FrameWriter, error) {
	w := &frameWriter{context: newContext(), value: value}
	r := C.begin(w.context.zstd, C.int(frameLevel(level, len(value))), C.ulonglong(len(value)))
	if err := failure(r); err != nil {
		return nil, err
	}
	w.pinned.Pin(unsafe.SliceData(value))
	return w, nil
}

// frameLevel returns the level for a value of n bytes.
func frameLevel(level, n int) int {
	if n > zstdframe.MaxWindow {
		return min(level, maxLargeLevel)
	}
	return level
}

func failure(r C.size_t) error {
	if C.ZSTD_isError(r) == 0 {
		return nil
	}
	return fmt.Errorf("libzstd: %s", C.GoString(C.ZSTD_getErrorName(r)))
}

func (w *frameWriter) Append(dst []byte, n int) ([]byte, error) {
	if w.context == nil {
		return dst, codec.ErrClosed
	}
	out, mode := dst, C.int(C.more)
	if n == len(w.value) {
		mode = C.last
	} else if n -= n % codec.FrameBlock; n == w.pos {
		return dst, nil
	}
	for {
		block := min(codec.FrameBlock, len(w.value)-w.pos)
		out = slices.Grow(out, codec.MaxEncodedLen(codec.Zstd, block)) // so that the library writes here, and not to a buffer of its own
		room := out[len(out):cap(out)]
		p := C.step(w.context.zstd, unsafe.Pointer(unsafe.SliceData(room)), C.size_t(len(room)),
			unsafe.Pointer(unsafe.SliceData(w.value)), C.size_t(n), C.size_t(w.pos), mode)
		if err := failure(p.result); err != nil {
			return dst, err
		}
		w.pos = int(p.in)
		out = out[:len(out)+int(p.out)]
		if w.pos == n && (p.result == 0 || mode == C.more) {
			return out, nil
		}
	}
}

func (w *frameWriter) Close() {
	if w.context == nil {
		return
	}
	C.ZSTD_CCtx_reset(w.context.zstd, C.resetAll) // drops its reference to the value
	if w.context.bytes() <= maxKeptContext {
		contexts.Put(w.context)
	} else {
		w.context.free()
	}
	w.pinned.Unpin()
	w.context, w.value = nil, nil
}

// FrameBytes returns the library's estimate, plus the output buffer.
func (*coder) FrameBytes(rawLen, level int) int {
	n := C.contextBytes(C.int(frameLevel(level, rawLen)), C.ulonglong(rawLen))
	return int(n) + codec.MaxEncodedLen(codec.Zstd, codec.FrameBlock)
}
