<?php
// Writes or checks values as applications do whose phpredis compresses them, as libraries.py does: see there.
[, $library, $port, $what, $file] = $argv;
$how = ['phpredis-lzf' => Redis::COMPRESSION_LZF, 'phpredis-zstd' => Redis::COMPRESSION_ZSTD, 'phpredis-lz4' => Redis::COMPRESSION_LZ4];
$client = new Redis();
$client->connect('127.0.0.1', (int) $port);
$client->setOption(Redis::OPT_COMPRESSION, $how[$library]);
$client->setOption(Redis::OPT_SERIALIZER, defined('Redis::SERIALIZER_IGBINARY') ? Redis::SERIALIZER_IGBINARY : Redis::SERIALIZER_PHP);
$values = json_decode(file_get_contents($file), true);
$updates = 5;
for ($version = 1; $what === 'update' && $version <= $updates; $version++) {
    foreach ($values as $key => $value) {
        $client->set($key, "$version:$value");
        usleep(500);
    }
}
foreach ($values as $key => $value) {
    if ($what === 'write') {
        $client->set($key, $value);
    } elseif ($what !== 'update') {
        $want = $what === 'updated' ? "$updates:$value" : $value;
        if ($client->get($key) !== $want) {
            fwrite(STDERR, "$key is another value\n");
            exit(1);
        }
    }
}
