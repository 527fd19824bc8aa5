import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.CompressionCodec;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.LZ4Codec;
import org.redisson.codec.LZ4CodecV2;
import org.redisson.codec.SnappyCodecV2;
import org.redisson.codec.ZStdCodec;
import org.redisson.config.Config;

/** Has Redisson and Lettuce write value.json, and keeps what then is in the server. */
public class Make {
    public static void main(String[] args) throws Exception {
        var value = Files.readString(Path.of("value.json"));
        var url = "redis://127.0.0.1:" + System.getenv("PORT");
        var config = new Config();
        config.useSingleServer().setAddress(url);
        var redisson = Redisson.create(config);
        var codecs = Map.<String, Codec>of(
                "redisson-lz4.bin", new LZ4Codec(StringCodec.INSTANCE),
                "redisson-lz4v2.bin", new LZ4CodecV2(StringCodec.INSTANCE),
                "redisson-zstd.bin", new ZStdCodec(StringCodec.INSTANCE),
                "snappy.bin", new SnappyCodecV2(StringCodec.INSTANCE),
                "kryo5/content", new Kryo5Codec(),
                "kryo5/redisson-lz4", new LZ4CodecV2(),
                "kryo5/redisson-zstd", new ZStdCodec(),
                "kryo5/snappy", new SnappyCodecV2());
        for (var c : codecs.entrySet()) {
            redisson.getBucket("key", c.getValue()).set(value);
            Files.write(Path.of(c.getKey()), redisson.<byte[]>getBucket("key", ByteArrayCodec.INSTANCE).get());
        }
        redisson.shutdown();

        var lettuce = RedisClient.create(url);
        var plain = lettuce.connect(io.lettuce.core.codec.ByteArrayCodec.INSTANCE).sync();
        var types = Map.of("lettuce-gzip.bin", CompressionCodec.CompressionType.GZIP, "lettuce-zlib.bin", CompressionCodec.CompressionType.DEFLATE);
        for (var t : types.entrySet()) {
            var codec = CompressionCodec.valueCompressor(io.lettuce.core.codec.StringCodec.UTF8, t.getValue());
            lettuce.connect(codec).sync().set("key", value);
            Files.write(Path.of(t.getKey()), plain.get("key".getBytes(StandardCharsets.UTF_8)));
        }
        lettuce.shutdown();
    }
}
