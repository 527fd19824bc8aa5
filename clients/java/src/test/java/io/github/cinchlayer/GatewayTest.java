package io.github.cinchlayer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import io.github.cinchlayer.jedis.JedisCommands;
import io.github.cinchlayer.lettuce.CinchCodec;
import io.github.cinchlayer.lettuce.LettuceCommands;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Function;
import java.util.function.IntPredicate;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.UnifiedJedis;

/** A gateway and the library on one server: each reads what the other wrote, while dictionaries are trained and replaced. */
class GatewayTest {
  private static final String CONFIG =
      "admin: {listen: off}\n"
          + "training: {min_samples: 1500, interval: 50ms, poll: 50ms, drift: 15%%, cpu: 99%%}\n"
          + "gateways:\n"
          + "  - {name: g, protocol: redis, listen: \"127.0.0.1:%d\", upstream: \"redis://127.0.0.1:%d\","
          + " rules: [{name: docs, key: \"doc:*\", setting: zstd-3, dictionary: auto}]}\n";
  private static final int MAX_WRITES = 200_000;
  private static final Duration REFRESH = Duration.ofMillis(50);

  /** One way to the values. */
  private interface Client {
    void set(String key, String value);

    String get(String key);
  }

  private final RedisServer server = new RedisServer();
  private final int port = RedisServer.freePort();
  private final UnifiedJedis through = new UnifiedJedis(new HostAndPort("127.0.0.1", port));
  private final RedisClient lettuce = RedisClient.create(RedisURI.create("127.0.0.1", server.port));
  private final Map<String, String> values = new ConcurrentHashMap<>();
  private final Queue<String> keys = new ConcurrentLinkedQueue<>();
  private final Queue<Throwable> failures = new ConcurrentLinkedQueue<>();
  private Process gateway;
  private Cinch cinch;
  private List<Client> clients;
  private volatile boolean ended;

  @BeforeEach
  void start() throws IOException, InterruptedException {
    Path program = RedisServer.gateway();
    Path config = Files.writeString(Path.of("target", "cinch.yaml"), String.format(CONFIG, port, server.port));
    gateway = RedisServer.quiet(program.toString(), "serve", "--config", config.toString()).start();
    RedisServer.answers(gateway, through);
    cinch = Cinch.builder(new LettuceCommands(RedisURI.create("127.0.0.1", server.port))).refresh(REFRESH).build();
    RedisCommands<String, String> codec = lettuce.connect(CinchCodec.of(cinch, StringCodec.UTF8, Address.string("doc:1"))).sync();
    clients = List.of(client(through::set, through::get), client(this::setByJedis, this::getByJedis), client(codec::set, codec::get));
  }

  @AfterEach
  void stop() {
    gateway.destroy();
    gateway.onExit().join();
    cinch.close();
    lettuce.shutdown();
    through.close();
    server.close();
  }

  private interface Set {
    void set(String key, String value);
  }

  private static Client client(Set set, Function<String, String> get) {
    return new Client() {
      @Override
      public void set(String key, String value) {
        set.set(key, value);
      }

      @Override
      public String get(String key) {
        return get.apply(key);
      }
    };
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private void setByJedis(String key, String value) {
    server.plain.set(bytes(key), cinch.seal(bytes(key), bytes(value)));
  }

  private String getByJedis(String key) {
    return new String(cinch.open(server.stored(key)), StandardCharsets.UTF_8);
  }

  private static String order(Random r) {
    return String.format(
        "{\"order_id\":\"%08x\",\"customer\":{\"id\":%d,\"tier\":\"%s\"},\"status\":\"%s\",\"total\":%d.%02d,\"created_at\":\"2026-%02d-%02dT10:00:00Z\"}",
        r.nextInt(), r.nextInt(1_000_000), List.of("gold", "silver").get(r.nextInt(2)), List.of("shipped", "pending", "cancelled").get(r.nextInt(3)),
        r.nextInt(500), r.nextInt(100), 1 + r.nextInt(12), 1 + r.nextInt(28));
  }

  private static String reading(Random r) {
    return String.format(
        "{\"sensorSerial\":\"%08x\",\"celsius\":%d,\"humidityPercent\":%d,\"battery\":\"discharging\",\"building\":\"headquarters\",\"measuredAtUnix\":%d}",
        r.nextInt(), r.nextInt(40), r.nextInt(100), 1_790_000_000 + r.nextInt(10_000_000));
  }

  private int dictionaryOf(String key) {
    byte[] stored = server.stored(key);
    return Envelope.isSealed(stored) ? Header.parse(stored).dictionary : 0;
  }

  /** Writes by all clients, in turns, until all name another dictionary, which it returns. */
  private int writeUntil(String name, Function<Random, String> make, IntPredicate isAnother) {
    Random r = new Random(1);
    for (int i = 0; i < MAX_WRITES; i += clients.size()) {
      int from = i;
      List<String> written = clients.stream().map(c -> write(c, "doc:" + name + ":" + (from + clients.indexOf(c)), make.apply(r))).collect(Collectors.toList());
      if (i % 500 < clients.size() && written.stream().allMatch(key -> isAnother.test(dictionaryOf(key)))) {
        return dictionaryOf(written.get(0));
      }
    }
    return fail("no dictionary");
  }

  private String write(Client by, String key, String value) {
    by.set(key, value);
    values.put(key, value);
    keys.add(key);
    return key;
  }

  private void readUntilEnded(Client by) {
    try {
      while (!ended) {
        String key = keys.poll();
        if (key != null) {
          assertEquals(values.get(key), by.get(key));
          keys.add(key);
        }
      }
    } catch (Throwable e) {
      failures.add(e);
    }
  }

  @Test
  void bothWhileDictionariesRollOver() throws InterruptedException {
    List<Thread> readers = clients.stream().map(c -> new Thread(() -> readUntilEnded(c))).collect(Collectors.toList());
    readers.forEach(Thread::start);
    try {
      int first = writeUntil("order", GatewayTest::order, n -> n != 0);
      writeUntil("reading", GatewayTest::reading, n -> n != 0 && n != first);
    } finally {
      ended = true;
      for (Thread reader : readers) {
        reader.join();
      }
    }
    assertArrayEquals(new Object[0], failures.toArray());
    try (Cinch fresh = Cinch.of(new JedisCommands(server.plain))) {
      values.forEach((key, value) -> assertArrayEquals(bytes(value), fresh.open(server.stored(key)), key));
    }
    values.forEach((key, value) -> assertEquals(value, through.get(key)));
  }
}
