<?php
// Opens for tests in other languages (test/library): a JSON object a line, in and out.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

ini_set('memory_limit', '512M');

function answer(array $asked): array
{
    if ($asked['op'] !== 'open') {
        return ['error' => 'unsupported'];
    }
    $dictionaries = [];
    foreach ($asked['dictionaries'] ?? [] as $content) {
        $d = new Cinch\Dictionary(base64_decode($content));
        $dictionaries[$d->number] = $d;
    }
    try {
        $value = Cinch\open_value(base64_decode($asked['value']), $dictionaries, $asked['max_raw'] ?? Cinch\DEFAULT_MAX_RAW);
        return ['value' => base64_encode($value)];
    } catch (Cinch\EnvelopeException $e) {
        return ['error' => match ($e::class) {
            Cinch\DictionaryMissing::class => 'dictionary missing',
            Cinch\UnknownCodec::class => 'unknown codec',
            Cinch\TooLarge::class => 'too large',
            default => 'damaged',
        }];
    }
}

while (($line = fgets(STDIN)) !== false) {
    echo json_encode(answer(json_decode($line, true))), "\n";
    flush();
}
