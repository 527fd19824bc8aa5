<?php
// Prints each key of the server at a port, and its value in base64.

declare(strict_types=1);

require __DIR__ . '/../../../clients/php/autoload.php';

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
$dictionaries = new Cinch\Store($redis);
foreach ($redis->keys('reading:*') as $key) {
    echo $key, ' ', base64_encode(Cinch\open_value($redis->get($key), $dictionaries)), "\n";
}
