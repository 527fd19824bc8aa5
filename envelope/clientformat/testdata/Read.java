import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.CompressionCodec;
import io.lettuce.core.codec.CompressionCodec.CompressionType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.redisson.Redisson;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.codec.LZ4Codec;
import org.redisson.codec.LZ4CodecV2;
import org.redisson.codec.SnappyCodecV2;
import org.redisson.codec.ZStdCodec;
import org.redisson.config.Config;

/** Has Redisson and Lettuce open what Append made, and compares. */
public class Read {
    public static void main(String[] args) throws Exception {
        var url = "redis://127.0.0.1:" + System.getenv("PORT");
        var config = new Config();
        config.useSingleServer().setAddress(url);
        var redisson = Redisson.create(config);
        var readers = new HashMap<String, List<Supplier<byte[]>>>();
        for (var format : Map.of(
                "redisson-lz4", List.of(new LZ4Codec(ByteArrayCodec.INSTANCE), new LZ4CodecV2(ByteArrayCodec.INSTANCE)),
                "redisson-zstd", List.of(new ZStdCodec(ByteArrayCodec.INSTANCE)),
                "snappy", List.of(new SnappyCodecV2(ByteArrayCodec.INSTANCE))).entrySet()) {
            readers.put(format.getKey(), format.getValue().stream().<Supplier<byte[]>>map(
                    codec -> () -> redisson.<byte[]>getBucket("key", codec).get()).toList());
        }
        var lettuce = RedisClient.create(url);
        var bytes = io.lettuce.core.codec.ByteArrayCodec.INSTANCE;
        for (var type : Map.of("gzip", CompressionType.GZIP, "zlib", CompressionType.DEFLATE).entrySet()) {
            var client = lettuce.connect(CompressionCodec.valueCompressor(bytes, type.getValue())).sync();
            readers.put(type.getKey(), List.of(() -> client.get("key".getBytes())));
        }

        var opened = 0;
        for (var path : Files.list(Path.of(System.getenv("FOREIGN_OUT"))).toList()) {
            var name = path.getFileName().toString();
            var format = name.substring(name.lastIndexOf('.') + 1);
            if (!name.contains(".of.") || !readers.containsKey(format)) {
                continue;
            }
            redisson.getBucket("key", ByteArrayCodec.INSTANCE).set(Files.readAllBytes(path));
            var content = Files.readAllBytes(path.resolveSibling(name.substring(0, name.indexOf(".of."))));
            for (var reader : readers.get(format)) {
                if (!Arrays.equals(reader.get(), content)) {
                    System.out.println(name + ": other bytes");
                    System.exit(1);
                }
            }
            opened++;
        }
        System.out.println(opened + " values open in Java");
        System.exit(0);
    }
}
