<?php
// Has phpredis open what Append made, and compares.
$port = (int) getenv('PORT');
$plain = new Redis();
$plain->connect('127.0.0.1', $port);
$clients = [];
foreach (['lzf' => Redis::COMPRESSION_LZF, 'zstd' => Redis::COMPRESSION_ZSTD, 'phpredis-lz4' => Redis::COMPRESSION_LZ4] as $name => $how) {
    $clients[$name] = new Redis();
    $clients[$name]->connect('127.0.0.1', $port);
    $clients[$name]->setOption(Redis::OPT_COMPRESSION, $how);
}
$opened = 0;
foreach (glob(getenv('FOREIGN_OUT') . '/*.of.*') as $path) {
    [$content, $how] = explode('.of.', $path);
    $format = explode('.', $how)[1];
    if (!isset($clients[$format])) {
        continue;
    }
    $plain->set('key', file_get_contents($path));
    if ($clients[$format]->get('key') !== file_get_contents($content)) {
        echo basename($path), ": other bytes\n";
        exit(1);
    }
    $opened++;
}
echo "$opened values open in PHP\n";
