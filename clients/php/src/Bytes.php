<?php

declare(strict_types=1);

namespace Cinch;

/** Reads that end in Damaged where there is nothing left to read. */
final class Bytes
{
    public static function at(string $b, int $at): int
    {
        return ord($b[$at] ?? throw new Damaged('it is cut off'));
    }

    public static function cut(string $b, int $at, int $n): string
    {
        return $n <= strlen($b) - $at ? substr($b, $at, $n) : throw new Damaged('it is cut off');
    }

    public static function little(string $b, int $at, int $n): int
    {
        $value = 0;
        for ($i = 0; $i < $n; $i++) {
            $value |= self::at($b, $at + $i) << (8 * $i);
        }
        return $value;
    }

    /** @return array{int, int} the number, and where the next thing begins */
    public static function uvarint(string $b, int $at): array
    {
        $value = 0;
        for ($i = 0; $i < 5; $i++) {
            $c = self::at($b, $at + $i);
            $value |= ($c & 0x7F) << (7 * $i);
            if ($c < 0x80) {
                return $i > 0 && $c === 0 ? throw new Damaged('length is not canonical') : [$value, $at + $i + 1];
            }
        }
        throw new Damaged('length is too long');
    }
}
