<?php

declare(strict_types=1);

namespace Cinch;

/** Decoders of snappy, s2, minlz and lz4 blocks, at some MB a second: enough to read what a gateway sealed with one of them. */
final class Blocks
{
    private string $out = '';

    private function __construct(private string $b, private int $at, private int $limit)
    {
    }

    public static function lz4(string $b, int $limit): string
    {
        $d = new self($b, 0, $limit);
        while ($d->more()) {
            $token = $d->little(1);
            $d->literals($d->lz4Length($token >> 4));
            if (!$d->more()) {
                break; // the last sequence is literals only
            }
            $offset = $d->little(2);
            $d->copy($offset, $d->lz4Length($token & 15) + 4);
        }
        return $d->out;
    }

    public static function snappy(string $b, int $limit, bool $repeats): string
    {
        $d = new self($b, 0, $limit);
        $d->declared();
        $offset = 0;
        while ($d->more()) {
            $tag = $d->little(1);
            $n = $tag >> 2;
            if (($tag & 3) === 0) {
                $d->literals(1 + ($n < 60 ? $n : $d->little($n - 59)));
                continue;
            }
            if (($tag & 3) === 1) {
                $n = $d->near($tag, $offset, $repeats);
            } else {
                $offset = $d->little(($tag & 3) === 2 ? 2 : 4);
                $n++;
            }
            $d->copy($offset, $n);
        }
        return $d->out;
    }

    /** The length of a copy from nearby; S2 repeats the last offset where none is given. */
    private function near(int $tag, int &$offset, bool $repeats): int
    {
        $n = $tag >> 2 & 7;
        $given = $tag >> 5 << 8 | $this->little(1);
        if ($given !== 0 || !$repeats) {
            $offset = $given;
            return $n + 4;
        }
        return match ($n) {
            5 => 8 + $this->little(1),
            6 => 260 + $this->little(2),
            7 => 65540 + $this->little(3),
            default => 4 + $n,
        };
    }

    /** Implements the block format of the MinLZ specification 1.0. */
    public static function minlz(string $b, int $limit): string
    {
        if (Bytes::at($b, 0) !== 0) {
            throw new Damaged('not a MinLZ block');
        }
        if (strlen($b) === 1) {
            return '';
        }
        if ($b[1] === "\0") {
            return substr($b, 2);
        }
        $d = new self($b, 1, $limit);
        if ($d->declared() > 8 << 20) {
            throw new Damaged('longer than a MinLZ block');
        }
        $offset = 1;
        while ($d->more()) {
            $d->minlzStep($offset);
        }
        return $d->out;
    }

    private function minlzStep(int &$offset): void
    {
        $tag = $this->little(1);
        $kind = $tag & 3;
        if ($kind === 0) {
            $n = $this->minlzLength($tag >> 3, 28, 30) + ($tag >> 3 < 29 ? 1 : 0);
            $tag & 4 ? $this->copy($offset, $n) : $this->literals($n);
        } elseif ($kind === 1) {
            $offset = 1 + ($tag >> 6 | $this->little(1) << 2);
            $n = $tag >> 2 & 15;
            $this->copy($offset, $n === 15 ? 18 + $this->little(1) : 4 + $n);
        } elseif ($kind === 2) {
            $offset = 64 + $this->little(2);
            $this->copy($offset, $this->minlzCopyLength($tag >> 2));
        } elseif (!($tag & 4)) {
            $offset = 64 + $this->little(2);
            $this->literals(1 + ($tag >> 3 & 3));
            $this->copy($offset, 4 + ($tag >> 5));
        } else {
            $word = $tag | $this->little(3) << 8;
            $offset = 65536 + ($word >> 11);
            $n = $this->minlzCopyLength($word >> 5 & 63);
            $this->literals($word >> 3 & 3);
            $this->copy($offset, $n);
        }
    }

    private function minlzCopyLength(int $value): int
    {
        return $this->minlzLength($value, 60, 64) + ($value <= 60 ? 4 : 0);
    }

    /** Values up to last stand for themselves, the next three for base plus 1, 2 or 3 more bytes. */
    private function minlzLength(int $value, int $last, int $base): int
    {
        return $value <= $last ? $value : $base + $this->little($value - $last);
    }

    private function lz4Length(int $n): int
    {
        if ($n < 15) {
            return $n;
        }
        do {
            $c = $this->little(1);
            $n += $c;
        } while ($c === 255);
        return $n;
    }

    private function more(): bool
    {
        return $this->at < strlen($this->b);
    }

    /** The length that the block itself begins with. */
    private function declared(): int
    {
        [$n, $this->at] = Bytes::uvarint($this->b, $this->at);
        return $n === $this->limit ? $n : throw new Damaged('lengths differ');
    }

    private function little(int $n): int
    {
        $value = Bytes::little($this->b, $this->at, $n);
        $this->at += $n;
        return $value;
    }

    private function literals(int $n): void
    {
        if ($n > strlen($this->b) - $this->at || $n > $this->limit - strlen($this->out)) {
            throw new Damaged('literals leave the block');
        }
        $this->out .= substr($this->b, $this->at, $n);
        $this->at += $n;
    }

    /** Appends n bytes from offset bytes back; the two may overlap. */
    private function copy(int $offset, int $n): void
    {
        if ($offset <= 0 || $offset > strlen($this->out) || $n > $this->limit - strlen($this->out)) {
            throw new Damaged('copy leaves the block');
        }
        $from = substr($this->out, -$offset, min($offset, $n));
        $this->out .= $n <= $offset ? $from : substr(str_repeat($from, intdiv($n, $offset) + 1), 0, $n);
    }
}
