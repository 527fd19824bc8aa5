<?php
// Has phpredis and Symfony open what Append made, and compares.
require '/usr/share/php/Symfony/Component/Cache/autoload.php';

use Symfony\Component\Cache\Marshaller\DeflateMarshaller;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;

$port = (int) getenv('PORT');
$plain = new Redis();
$plain->connect('127.0.0.1', $port);
$readers = [];
foreach (['lzf' => Redis::COMPRESSION_LZF, 'zstd' => Redis::COMPRESSION_ZSTD, 'phpredis-lz4' => Redis::COMPRESSION_LZ4] as $name => $how) {
    $client = new Redis();
    $client->connect('127.0.0.1', $port);
    $client->setOption(Redis::OPT_COMPRESSION, $how);
    $readers[$name] = fn () => $client->get('key');
}
$strings = new class implements MarshallerInterface {
    public function marshall(array $values, ?array &$failed): array
    {
        return $values;
    }

    public function unmarshall(string $value)
    {
        return $value;
    }
};
$symfony = new DeflateMarshaller($strings);
$readers['deflate'] = fn () => $symfony->unmarshall($plain->get('key'));
$opened = 0;
foreach (glob(getenv('FOREIGN_OUT') . '/*.of.*') as $path) {
    [$content, $how] = explode('.of.', $path);
    $format = explode('.', $how)[1];
    if (!isset($readers[$format])) {
        continue;
    }
    $plain->set('key', file_get_contents($path));
    if ($readers[$format]() !== file_get_contents($content)) {
        echo basename($path), ": other bytes\n";
        exit(1);
    }
    $opened++;
}
echo "$opened values open in PHP\n";
