<?php

declare(strict_types=1);

namespace Cinch;

const DEFAULT_MAX_RAW = 32 << 20;

/**
 * Returns the value that stored bytes stand for; bytes that are no envelope come back as they are.
 *
 * @param callable|array<int, string|Dictionary> $dictionaries by number, or what answers one for a number, or null. Store is one.
 * @throws EnvelopeException
 */
function open_value(string $stored, callable|array $dictionaries = [], int $maxRaw = DEFAULT_MAX_RAW): string
{
    return Envelope::isSealed($stored) ? Envelope::parse($stored)->open($dictionaries, $maxRaw) : $stored;
}
