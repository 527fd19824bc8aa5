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
        foreach (self::PLACES as $library => $key) {
            $content = $this->ask($number, $library, $key);
            if ($content !== null) {
                $d = new Dictionary($content);
                return $d->number === $number ? $this->held[$number] = $d : null;
            }
        }
        return null;
    }

    /** A function of the server answers; where it has none, as before Redis 7, there may be a key. */
    private function ask(int $number, string $library, string $key): ?string
    {
        $name = sprintf('%08x', $number);
        $content = $this->command('FCALL_RO', $library . $name, '0');
        if ($content !== null) {
            return base64_decode($content, true) ?: null;
        }
        return $this->command('GET', $key . $name);
    }

    private function command(string ...$words): ?string
    {
        $this->redis->clearLastError();
        $answer = $this->redis->rawCommand(...$words);
        $error = $this->redis->getLastError();
        if ($error !== null && !preg_match('/function not found|unknown command/i', $error)) {
            throw new DictionaryUnavailable($error);
        }
        return is_string($answer) ? $answer : null;
    }
}
