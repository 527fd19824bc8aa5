<?php

declare(strict_types=1);

namespace Cinch;

/**
 * The dictionaries of a Redis server, by phpredis. It keeps what it has fetched.
 *
 *     $value = Cinch\open_value($redis->get('order:42'), $store);
 */
final class Store
{
    private const PLACES = ['cinch_dict_' => 'cinch:dict:', 'cinch_archive_' => 'cinch:dict:archive:'];

    /** @var array<int, Dictionary> */
    private array $held = [];

    /** The client stands at database 0. */
    public function __construct(private \Redis $redis)
    {
    }

    public function __invoke(int $number): ?Dictionary
    {
        return $this->held[$number] ?? $this->fetch($number);
    }

    private function fetch(int $number): ?Dictionary
    {
        $name = sprintf('%08x', $number);
        $libraries = $this->command('FUNCTION', 'LIST', 'LIBRARYNAME', "cinch_*_$name", 'WITHCODE');
        $sources = [];
        foreach (is_array($libraries) ? $libraries : [] as $library) { // each a list of names and values
            $fields = array_column(array_chunk($library, 2), 1, 0);
            $sources[$fields['library_name']] = $fields['library_code'];
        }
        foreach (self::PLACES as $library => $key) {
            $source = $sources[$library . $name] ?? null;
            $content = $source === null ? $this->command('GET', $key . $name) : self::content($source);
            if (is_string($content)) {
                return $this->held($number, $content);
            }
        }
        return null;
    }

    /** The dictionary of that content, or null where it is another, or none. */
    private function held(int $number, string $content): ?Dictionary
    {
        try {
            $d = new Dictionary($content);
        } catch (\InvalidArgumentException) {
            return null;
        }
        return $d->number === $number ? $this->held[$number] = $d : null;
    }

    /**
     * What a library holds: compressed in a comment or, from 0.1.0, plain in the text that the function returns. Empty where there is
     * none.
     */
    private static function content(string $source): string
    {
        if (preg_match('/\n-- zstd ([0-9]{1,6}) (\S+)\n/', $source, $found)) {
            try {
                return Zstd::open(substr((string) base64_decode($found[2], true), 4), min((int) $found[1], 512 << 10), null);
            } catch (Damaged) {
                return '';
            }
        }
        return preg_match("/return '([^']*)'/", $source, $found) ? (string) base64_decode($found[1], true) : '';
    }

    /** An answer, or null where the server does not know the command, as before Redis 7. */
    private function command(string ...$words): mixed
    {
        $this->redis->clearLastError();
        $answer = $this->redis->rawCommand(...$words);
        $error = $this->redis->getLastError();
        if ($error !== null && !preg_match('/unknown command/i', $error)) {
            throw new DictionaryUnavailable($error);
        }
        return $answer === false ? null : $answer;
    }
}
