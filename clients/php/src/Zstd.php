<?php

declare(strict_types=1);

namespace Cinch;

/** Debian's libzstd by FFI: what is declared is all that is ever allocated for a value. */
final class Zstd
{
    private const MAGIC = "\x28\xB5\x2F\xFD";
    private const DECLARATIONS = '
        typedef struct ZSTD_DCtx_s ZSTD_DCtx;
        typedef struct ZSTD_DDict_s ZSTD_DDict;
        ZSTD_DCtx *ZSTD_createDCtx(void);
        ZSTD_DDict *ZSTD_createDDict(const char *content, size_t length);
        size_t ZSTD_freeDDict(ZSTD_DDict *d);
        size_t ZSTD_findFrameCompressedSize(const char *frame, size_t length);
        size_t ZSTD_decompress_usingDDict(ZSTD_DCtx *c, char *value, size_t room, const char *frame, size_t length, const ZSTD_DDict *d);
        unsigned ZSTD_isError(size_t code);
    ';

    private static ?\FFI $library = null;
    private static ?\FFI\CData $context = null;

    public static function open(string $payload, int $rawLength, ?Dictionary $dictionary): string
    {
        $zstd = self::library();
        $frame = self::MAGIC . $payload;
        if ($zstd->ZSTD_findFrameCompressedSize($frame, strlen($frame)) !== strlen($frame)) {
            throw new Damaged('payload is not one frame');
        }
        $value = $zstd->new('char[' . max(1, $rawLength) . ']');
        $n = $zstd->ZSTD_decompress_usingDDict(
            self::$context, $value, $rawLength, $frame, strlen($frame), $dictionary?->prepared()
        );
        if ($zstd->ZSTD_isError($n)) {
            throw new Damaged('payload does not decode to the declared length');
        }
        return \FFI::string($value, $n);
    }

    public static function prepare(string $content): \FFI\CData
    {
        return self::library()->ZSTD_createDDict($content, strlen($content)) ?? throw new Damaged('the dictionary is malformed');
    }

    public static function forget(\FFI\CData $prepared): void
    {
        self::library()->ZSTD_freeDDict($prepared);
    }

    private static function library(): \FFI
    {
        if (self::$library === null) {
            self::$library = \FFI::cdef(self::DECLARATIONS, 'libzstd.so.1');
            self::$context = self::$library->ZSTD_createDCtx();
        }
        return self::$library;
    }
}
