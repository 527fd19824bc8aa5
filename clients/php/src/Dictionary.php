<?php

declare(strict_types=1);

namespace Cinch;

/** Immutable bytes with a number, and what zstd has made of them. */
final class Dictionary
{
    public readonly int $number;
    private ?\FFI\CData $prepared = null;

    public function __construct(public readonly string $content)
    {
        if (strlen($content) < 16 || strlen($content) > 512 << 10) {
            throw new \InvalidArgumentException('a dictionary has 16 bytes to 512 KiB, this has ' . strlen($content));
        }
        $this->number = unpack('N', hash('sha256', $content, true))[1];
    }

    /** The dictionary of that number. What lies under it and has another one is none. */
    public static function find(callable|array $dictionaries, int $number): self
    {
        $found = is_callable($dictionaries) ? $dictionaries($number) : $dictionaries[$number] ?? null;
        if (is_string($found)) {
            $found = new self($found);
        }
        if ($found?->number !== $number) {
            throw new DictionaryMissing(sprintf('%08x', $number));
        }
        return $found;
    }

    /** The tag of an envelope, given all of it but the tag. */
    public function tag(string $rest): string
    {
        $key = hash('sha256', 'cinch tag v1' . $this->content, true);
        return substr(hash_hmac('sha256', $rest, $key, true), 0, 8);
    }

    /** The dictionary as libzstd has it. */
    public function prepared(): \FFI\CData
    {
        return $this->prepared ??= Zstd::prepare($this->content);
    }

    public function __destruct()
    {
        if ($this->prepared !== null) {
            Zstd::forget($this->prepared);
        }
    }
}
