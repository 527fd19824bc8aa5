<?php
// Has phpredis write value.json, and keeps what then is in the server.
$value = file_get_contents('value.json');
$port = (int) getenv('PORT');
$plain = new Redis();
$plain->connect('127.0.0.1', $port);
foreach (['lzf' => Redis::COMPRESSION_LZF, 'phpredis-zstd' => Redis::COMPRESSION_ZSTD, 'phpredis-lz4' => Redis::COMPRESSION_LZ4] as $name => $how) {
    $client = new Redis();
    $client->connect('127.0.0.1', $port);
    $client->setOption(Redis::OPT_COMPRESSION, $how);
    $client->set($name, $value);
    file_put_contents("$name.bin", $plain->get($name));
}
