package io.github.cinchlayer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cinchlayer.EnvelopeException.DictionaryMissing;
import io.github.cinchlayer.jedis.JedisCommands;
import io.github.cinchlayer.lettuce.CinchCodec;
import io.github.cinchlayer.lettuce.LettuceClusterCommands;
import io.github.cinchlayer.lettuce.LettuceCommands;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.codec.StringCodec;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisSentineled;

/** Where there is more than one server: Redis Cluster, and Sentinel with a failover. */
class TopologiesTest {
  private static final String CONTENT =
      "{\"id\": 1, \"name\": \"Margherita\", \"price\": 7.5, \"available\": true, \"toppings\": [\"tomato\", \"mozzarella\", \"basil\"]}".repeat(3);
  private static final String MENU =
      "{\"id\": 77, \"name\": \"Marinara\", \"price\": 6.5, \"available\": true, \"toppings\": [\"tomato\", \"garlic\", \"oregano\"]}".repeat(4);
  private static final String POLICY =
      "{'format': 1, 'rules': [{'key': 'menu:*', 'types': ['string', 'hash'], 'min_size': 64, 'codec': 'zstd', 'level': 3, 'record': 'aabb'}]}";

  private final List<RedisServer> servers = new ArrayList<>();

  private RedisServer start(String... arguments) {
    servers.add(new RedisServer(arguments));
    return servers.get(servers.size() - 1);
  }

  @AfterEach
  void stop() {
    servers.forEach(RedisServer::close);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static RedisURI uri(RedisServer server) {
    return RedisURI.create("127.0.0.1", server.port);
  }

  private static String current(Dictionary dictionary) {
    return "{\"current\": {\"dict\": \"" + Dictionary.name(dictionary.number()) + "\"}}";
  }

  /** What gateways leave in a server. */
  private static Dictionary agree(RedisServer server) {
    Dictionary dictionary = server.hold(bytes(CONTENT));
    server.publish(Policy.RECORD, 1, POLICY);
    server.publish("aabb", 1, current(dictionary));
    return dictionary;
  }

  private static int dictionaryOf(byte[] stored) {
    assertTrue(Envelope.isSealed(stored));
    return Header.parse(stored).dictionary;
  }

  private void startCluster() {
    for (int i = 0; i < 2; i++) {
      RedisServer node = start("--cluster-enabled", "yes", "--cluster-node-timeout", "2000");
      node.command("CLUSTER", "ADDSLOTSRANGE", Integer.toString(8192 * i), Integer.toString(8192 * i + 8191));
      node.command("CLUSTER", "SET-CONFIG-EPOCH", Integer.toString(i + 1));
    }
    servers.get(0).command("CLUSTER", "MEET", "127.0.0.1", Integer.toString(servers.get(1).port));
    for (RedisServer node : servers) {
      RedisServer.until(() -> new String((byte[]) node.command("CLUSTER", "INFO"), StandardCharsets.UTF_8).startsWith("cluster_state:ok"));
    }
  }

  private Cinch ofCluster() {
    return Cinch.of(new LettuceClusterCommands(List.of(uri(servers.get(0)))));
  }

  private void assertAllName(int number) {
    for (RedisServer node : servers) {
      Set<String> keys = node.plain.keys("menu:*");
      assertFalse(keys.isEmpty(), "each node has some");
      keys.forEach(key -> assertEquals(number, dictionaryOf(node.stored(key))));
    }
  }

  @Test
  void clusterValuesNameDictionariesThatAllPrimariesHave() {
    startCluster();
    Dictionary first = servers.stream().map(TopologiesTest::agree).reduce((a, b) -> b).orElseThrow();
    writeAndRead(first.number());
    Dictionary next = servers.get(0).hold(bytes(CONTENT + MENU));
    servers.get(0).publish("aabb", 2, current(next));
    writeAndRead(0);
    servers.get(1).hold(bytes(CONTENT + MENU));
    writeAndRead(next.number());
  }

  private void writeAndRead(int number) {
    RedisClusterClient client = RedisClusterClient.create(uri(servers.get(0)));
    try (Cinch cinch = ofCluster()) {
      RedisAdvancedClusterCommands<String, String> r = client.connect(CinchCodec.of(cinch, StringCodec.UTF8, Address.string("menu:1"))).sync();
      for (int i = 0; i < 20; i++) {
        r.set("menu:" + i, MENU);
      }
      assertAllName(number);
      for (int i = 0; i < 20; i++) {
        assertEquals(MENU, r.get("menu:" + i));
      }
    } finally {
      client.shutdown();
    }
  }

  @Test
  void clusterDictionariesOfAnyPrimary() {
    startCluster();
    try (Cinch cinch = ofCluster()) {
      for (RedisServer node : servers) {
        Dictionary dictionary = node.hold(bytes(CONTENT + node.port));
        assertArrayEquals(bytes(MENU), cinch.open(Envelope.seal(bytes(MENU), 3, dictionary)));
      }
      assertThrows(DictionaryMissing.class, () -> cinch.open(Envelope.seal(bytes(MENU), 3, new Dictionary(bytes(MENU)))));
    }
  }

  @Test
  void clustersByJedisAreRefused() {
    startCluster();
    try (JedisCluster jedis = new JedisCluster(new HostAndPort("127.0.0.1", servers.get(0).port))) {
      assertThrows(IllegalArgumentException.class, () -> new JedisCommands(jedis));
    }
  }

  @Test
  void sentinelThroughAFailover() throws IOException {
    RedisServer primary = start();
    Dictionary dictionary = agree(primary);
    RedisServer replica = start("--replicaof", "127.0.0.1 " + primary.port);
    RedisURI uri = sentinel(primary);
    RedisClient client = RedisClient.create(uri);
    try (Cinch cinch = Cinch.builder(new LettuceCommands(uri)).refresh(Duration.ofMillis(50)).build()) {
      RedisCommands<String, String> r = client.connect(CinchCodec.of(cinch, StringCodec.UTF8, Address.string("menu:1"))).sync();
      r.set("menu:1", MENU);
      assertEquals(dictionary.number(), dictionaryOf(primary.stored("menu:1")));
      RedisServer.until(() -> replica.plain.exists("menu:1"));
      primary.close();
      RedisServer.until(() -> r.set("menu:2", MENU).equals("OK") && replica.plain.exists("menu:2"));
      assertEquals(dictionary.number(), dictionaryOf(replica.stored("menu:2")));
      assertEquals(MENU, r.get("menu:1"));
      Dictionary next = replica.hold(bytes(CONTENT + MENU));
      replica.publish("aabb", 2, current(next));
      RedisServer.until(() -> r.set("menu:3", MENU).equals("OK") && dictionaryOf(replica.stored("menu:3")) == next.number());
      assertEquals(MENU, r.get("menu:3"));
    } finally {
      client.shutdown();
    }
    byJedis(uri.getSentinels().get(0).getPort(), replica);
  }

  private static void byJedis(int sentinel, RedisServer primary) {
    DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().build();
    Set<HostAndPort> sentinels = Set.of(new HostAndPort("127.0.0.1", sentinel));
    try (JedisSentineled jedis = new JedisSentineled("m", config, sentinels, config); Cinch cinch = Cinch.of(new JedisCommands(jedis))) {
      jedis.set(bytes("menu:4"), cinch.seal(bytes("menu:4"), bytes(MENU)));
      assertTrue(dictionaryOf(primary.stored("menu:4")) != 0);
      assertArrayEquals(bytes(MENU), cinch.open(jedis.get(bytes("menu:4"))));
    }
  }

  /** The address of a primary by a Sentinel that knows its replica. */
  private RedisURI sentinel(RedisServer primary) throws IOException {
    Path config = Files.createTempDirectory("cinch-sentinel").resolve("sentinel.conf");
    String watches = "sentinel monitor m 127.0.0.1 %d 1\nsentinel down-after-milliseconds m 500\nsentinel failover-timeout m 3000\n";
    Files.writeString(config, String.format(watches, primary.port));
    RedisServer sentinel = start(config.toString(), "--sentinel");
    RedisServer.until(() -> replicaIsLinked(sentinel));
    return RedisURI.Builder.sentinel("127.0.0.1", sentinel.port, "m").build();
  }

  private static boolean replicaIsLinked(RedisServer sentinel) {
    for (Object replica : (List<?>) sentinel.command("SENTINEL", "REPLICAS", "m")) {
      List<String> fields = new ArrayList<>();
      ((List<?>) replica).forEach(word -> fields.add(new String((byte[]) word, StandardCharsets.UTF_8)));
      if (fields.get(fields.indexOf("master-link-status") + 1).equals("ok")) {
        return true;
      }
    }
    return false;
  }
}
