import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.LZ4CodecV2;
import org.redisson.codec.SnappyCodecV2;
import org.redisson.codec.ZStdCodec;
import org.redisson.config.Config;

/** Writes or checks values as applications do whose Redisson compresses them, as libraries.py does: see there. */
public class RedissonValues {
    private static final int UPDATES = 5;

    public static void main(String[] args) throws Exception {
        Codec codec = switch (args[0]) {
            case "redisson-zstd" -> new ZStdCodec(StringCodec.INSTANCE);
            case "redisson-lz4" -> new LZ4CodecV2(); // Kryo inside
            default -> new SnappyCodecV2(StringCodec.INSTANCE);
        };
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[1]).setConnectionPoolSize(2).setConnectionMinimumIdleSize(1);
        RedissonClient client = org.redisson.Redisson.create(config);
        Map<String, String> values = new Gson().fromJson(Files.readString(Path.of(args[3])), new TypeToken<Map<String, String>>() {}.getType());
        try {
            run(client, codec, args[2], values);
        } finally {
            client.shutdown();
        }
    }

    private static void run(RedissonClient client, Codec codec, String what, Map<String, String> values) throws Exception {
        for (int version = 1; what.equals("update") && version <= UPDATES; version++) {
            for (Map.Entry<String, String> e : values.entrySet()) {
                client.getBucket(e.getKey(), codec).set(version + ":" + e.getValue());
                Thread.sleep(1);
            }
        }
        for (Map.Entry<String, String> e : values.entrySet()) {
            if (what.equals("write")) {
                client.getBucket(e.getKey(), codec).set(e.getValue());
            } else if (what.startsWith("check") || what.equals("updated")) {
                String want = (what.equals("updated") ? UPDATES + ":" : "") + e.getValue();
                if (!want.equals(client.getBucket(e.getKey(), codec).get())) {
                    throw new IllegalStateException(e.getKey() + " is another value");
                }
            }
        }
    }
}
