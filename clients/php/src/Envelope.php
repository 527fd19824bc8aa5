<?php

declare(strict_types=1);

namespace Cinch;

/** A header and what it belongs to: docs/FORMAT.md, from which this was written. */
final class Envelope
{
    private const MAGIC = "\xC1\xDD\xDC";
    private const RAW = 0, SNAPPY = 1, S2 = 2, MINLZ = 3, LZ4 = 4, ZSTD = 5, ZLIB = 6, GZIP = 7;

    private function __construct(
        private string $stored,
        public readonly int $codec,
        public readonly int $rawLength,
        public readonly int $dictionary, // 0: none
        private string $check, // the checksum's bytes, or the tag
        private int $checkAt,
        private int $length, // of the header
    ) {
    }

    public static function isSealed(string $stored): bool
    {
        return str_starts_with($stored, self::MAGIC);
    }

    /** Reads the header of something that begins with the magic. */
    public static function parse(string $stored): self
    {
        $codec = Bytes::at($stored, 3);
        $flags = Bytes::at($stored, 4);
        if ($codec >> 4 !== 1 || $flags & 0x30) {
            throw new Damaged('unknown version, or a reserved flag is set');
        }
        $codec &= 15;
        [$rawLength, $at] = Bytes::uvarint($stored, 5);
        $tagged = ($flags & 0x80) !== 0;
        $check = Bytes::cut($stored, $at, $tagged ? 8 : 4);
        $end = $at + strlen($check);
        $number = 0;
        if ($tagged) {
            $number = unpack('N', Bytes::cut($stored, $end, 4))[1];
            self::checkNumber($number, $codec);
            $end += 4;
        }
        $words = Bytes::cut($stored, $end, 4 * ($flags & 15));
        $end += strlen($words);
        if ($flags & 0x40) {
            $codec = self::foreign($words);
        }
        return new self($stored, $codec, $rawLength, $number, $check, $at, $end);
    }

    /** What is sealed is the content of a value in another library's format, which we can't write: an unknown codec. */
    private static function foreign(string $words): int
    {
        if ($words === '' || $words[0] !== "\x01" || $words[1] === "\0" || $words[3] !== "\0") {
            throw new Damaged('no format of the value is named');
        }
        return 0x40 + ord($words[1]);
    }

    private static function checkNumber(int $number, int $codec): void
    {
        if ($number === 0 || $codec <= self::GZIP && $codec !== self::ZSTD) {
            throw new Damaged('dictionary number is 0, or the codec takes none');
        }
    }

    public function open(callable|array $dictionaries, int $maxRaw): string
    {
        if ($this->codec > self::GZIP) {
            throw new UnknownCodec("codec {$this->codec}");
        }
        if ($this->codec !== self::RAW && $this->rawLength > $maxRaw) {
            throw new TooLarge("{$this->rawLength} bytes declared, at most $maxRaw are opened");
        }
        $dictionary = $this->dictionary === 0 ? null : $this->checked(Dictionary::find($dictionaries, $this->dictionary));
        $value = $this->decode(substr($this->stored, $this->length), $dictionary);
        if (strlen($value) !== $this->rawLength) {
            throw new Damaged(strlen($value) . " bytes, {$this->rawLength} declared");
        }
        if ($dictionary === null && pack('V', crc32($value)) !== $this->check) {
            throw new Damaged('checksum does not match');
        }
        return $value;
    }

    /** Before anything is decoded: nobody makes a tag who has no dictionary. */
    private function checked(Dictionary $d): Dictionary
    {
        $tag = $d->tag(substr($this->stored, 0, $this->checkAt) . substr($this->stored, $this->checkAt + 8));
        if (!hash_equals($tag, $this->check)) {
            throw new Damaged('tag does not match');
        }
        return $d;
    }

    private function decode(string $payload, ?Dictionary $dictionary): string
    {
        return match ($this->codec) {
            self::RAW => $payload,
            self::SNAPPY => Blocks::snappy($payload, $this->rawLength, false),
            self::S2 => Blocks::snappy($payload, $this->rawLength, true),
            self::MINLZ => Blocks::minlz($payload, $this->rawLength),
            self::LZ4 => Blocks::lz4($payload, $this->rawLength),
            self::ZSTD => Zstd::open($payload, $this->rawLength, $dictionary),
            self::ZLIB => self::inflate($payload, $this->rawLength, ZLIB_ENCODING_DEFLATE),
            self::GZIP => self::inflate($payload, $this->rawLength, ZLIB_ENCODING_GZIP),
        };
    }

    /** A few bytes at a time, of which none becomes more than some 1,000, so that a bomb is seen early. */
    private static function inflate(string $payload, int $rawLength, int $encoding): string
    {
        $z = inflate_init($encoding);
        $value = '';
        for ($at = 0; $at < strlen($payload) && inflate_get_status($z) !== ZLIB_STREAM_END; $at += 4096) {
            $piece = @inflate_add($z, substr($payload, $at, 4096));
            if ($piece === false || strlen($value) + strlen($piece) > $rawLength) {
                throw new Damaged('payload does not decode to the declared length');
            }
            $value .= $piece;
        }
        if (inflate_get_status($z) !== ZLIB_STREAM_END || inflate_get_read_len($z) !== strlen($payload)) {
            throw new Damaged('payload does not end with the stream');
        }
        return $value;
    }
}
