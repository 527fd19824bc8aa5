<?php
// Has phpredis and Symfony write value.json, and keeps what then is in the server.
require '/usr/share/php/Symfony/Component/Cache/autoload.php';

use Symfony\Component\Cache\Adapter\RedisAdapter;
use Symfony\Component\Cache\Marshaller\DeflateMarshaller;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;

$port = (int) getenv('PORT');
function client(array $options = []): Redis
{
    $client = new Redis();
    $client->connect('127.0.0.1', $GLOBALS['port']);
    foreach ($options as $name => $value) {
        $client->setOption($name, $value);
    }
    return $client;
}

$value = file_get_contents('value.json');
$plain = client();
$compressions = ['lzf' => Redis::COMPRESSION_LZF, 'zstd' => Redis::COMPRESSION_ZSTD, 'phpredis-lz4' => Redis::COMPRESSION_LZ4];
foreach (['lzf' => 'lzf', 'phpredis-zstd' => 'zstd', 'phpredis-lz4' => 'phpredis-lz4'] as $name => $how) {
    client([Redis::OPT_COMPRESSION => $compressions[$how]])->set($name, $value);
    file_put_contents("$name.bin", $plain->get($name));
}

// The checksum in LZ4's header is of the length, so lengths differ in all their bytes.
foreach ([1, 2, 63, 255, 256, 1000, 4096, 65535, 65536, 1000003] as $n) {
    client([Redis::OPT_COMPRESSION => Redis::COMPRESSION_LZ4])->set($n, substr(str_repeat($value, 1 + intdiv($n, strlen($value))), 0, $n));
    file_put_contents("phpredis-lz4/$n", $plain->get($n));
}

// What igbinary made goes into compression as it is.
$decoded = json_decode($value, true);
file_put_contents('igbinary/content', igbinary_serialize($decoded));
foreach ($compressions as $format => $how) {
    client([Redis::OPT_COMPRESSION => $how, Redis::OPT_SERIALIZER => Redis::SERIALIZER_IGBINARY])->set($format, $decoded);
    file_put_contents("igbinary/$format", $plain->get($format));
}

// Symfony deflates what another marshaller made: this one makes nothing of strings.
$strings = new class implements MarshallerInterface {
    public function marshall(array $values, ?array &$failed): array
    {
        $failed = [];
        return $values;
    }

    public function unmarshall(string $value)
    {
        return $value;
    }
};
$cache = new RedisAdapter(client(), 'symfony', 0, new DeflateMarshaller($strings));
$cache->save($cache->getItem('key')->set($value));
file_put_contents('deflate.bin', $plain->get('symfony:key'));
