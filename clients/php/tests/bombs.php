<?php
// Opens what envelope/testdata/bombs has: few bytes that declare many, and counts the work, which no clock does. It exits with 1 if that is too much.

declare(strict_types=1);

namespace Cinch {
    /** What the functions below, which Blocks calls in place of PHP's own, were asked for. */
    final class Work
    {
        public static int $calls = 0;
        public static int $bytes = 0;

        public static function of(string $made): string
        {
            self::$calls++;
            self::$bytes += strlen($made);
            return $made;
        }
    }

    function substr(string $b, int $at, ?int $n = null): string
    {
        return Work::of(\substr($b, $at, $n));
    }

    function str_repeat(string $b, int $n): string
    {
        return Work::of(\str_repeat($b, $n));
    }

    function ord(string $b): int
    {
        Work::$calls++;
        return \ord($b);
    }
}

namespace {
    require __DIR__ . '/../autoload.php';

    ini_set('memory_limit', '512M');

    $bombs = json_decode(file_get_contents(__DIR__ . '/../../../envelope/testdata/bombs/index.json'), true, flags: JSON_THROW_ON_ERROR);
    $failed = count($bombs) > 15 ? 0 : 1;
    foreach ($bombs as $bomb) {
        $stored = base64_decode($bomb['stored']);
        Cinch\Work::$calls = Cinch\Work::$bytes = 0;
        $value = null;
        try {
            $value = Cinch\open_value($stored);
        } catch (Cinch\Damaged) {
        }
        $problems = [];
        if (Cinch\Work::$calls > 4 * strlen($stored) + 64) {
            $problems[] = Cinch\Work::$calls . ' calls for ' . strlen($stored) . ' bytes';
        }
        if (Cinch\Work::$bytes > 8 * strlen($stored) + 3 * $bomb['raw_len']) {
            $problems[] = Cinch\Work::$bytes . " bytes made, {$bomb['raw_len']} declared";
        }
        $want = null;
        if (!isset($bomb['error'])) {
            $period = base64_decode($bomb['period']);
            $want = \substr(\str_repeat($period, intdiv($bomb['raw_len'], strlen($period)) + 1), 0, $bomb['raw_len']);
        }
        if ($value !== $want) {
            $problems[] = 'it opens to something else';
        }
        foreach ($problems as $problem) {
            $failed = 1;
            echo "{$bomb['name']}: $problem\n";
        }
    }
    echo count($bombs), " bombs\n";
    exit($failed);
}
