package io.github.cinchlayer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cinchlayer.EnvelopeException.Damaged;
import io.github.cinchlayer.EnvelopeException.DictionaryMissing;
import io.github.cinchlayer.jedis.JedisCommands;
import io.github.cinchlayer.lettuce.CinchCodec;
import io.github.cinchlayer.lettuce.LettuceCommands;
import io.github.cinchlayer.spring.CinchSerializer;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.serializer.RedisSerializer;
import org.springframework.data.redis.serializer.SerializationException;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;

/** The clients on a real server, with what gateways publish. */
class ClientsTest {
  private static final String CONTENT =
      "{\"id\": 1, \"name\": \"Margherita\", \"price\": 7.5, \"available\": true, \"toppings\": [\"tomato\", \"mozzarella\", \"basil\"]}".repeat(3);
  private static final String MENU =
      "{\"id\": 77, \"name\": \"Marinara\", \"price\": 6.5, \"available\": true, \"toppings\": [\"tomato\", \"garlic\", \"oregano\"], \"note\": \"seventy-seven\"}";
  private static final String POLICY =
      "{'format': 1, 'exclude': ['lock:*'], 'rules': ["
          + "{'key': 'note:*', 'types': ['string', 'hash'], 'codec': 'raw'},"
          + "{'key': '*', 'types': ['string', 'hash'], 'min_size': 64, 'codec': 'zstd', 'level': 3, 'record': 'aabb'}]}";
  private static final String RECORD = "aabb";

  private final RedisServer server = new RedisServer();
  private final Dictionary dictionary = server.hold(bytes(CONTENT));
  private final RedisURI uri = RedisURI.create("127.0.0.1", server.port);
  private final RedisClient lettuce = RedisClient.create(uri);

  @BeforeEach
  void publish() {
    server.publish(Policy.RECORD, 1, POLICY);
    server.publish(RECORD, 1, current(dictionary));
  }

  @AfterEach
  void stop() {
    lettuce.shutdown();
    server.close();
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String current(Dictionary dictionary) {
    return "{\"current\": {\"dict\": \"" + Dictionary.name(dictionary.number()) + "\"}}";
  }

  private Cinch cinch() {
    return Cinch.of(new JedisCommands(server.plain));
  }

  private RedisCommands<String, String> lettuce(Cinch cinch, Address address) {
    return lettuce.connect(CinchCodec.of(cinch, StringCodec.UTF8, address)).sync();
  }

  private void assertStored(byte[] stored, String value, int number) {
    assertTrue(stored.length < value.length() && Envelope.isSealed(stored));
    assertEquals(number, Header.parse(stored).dictionary);
    assertArrayEquals(bytes(value), Envelope.open(stored, new Store(new JedisCommands(server.plain))::dictionary, 1000));
  }

  private void works(Commands commands) {
    try (Cinch cinch = Cinch.of(commands)) {
      byte[] stored = cinch.seal(bytes("menu:1"), bytes(MENU));
      assertStored(stored, MENU, dictionary.number());
      assertArrayEquals(bytes(MENU), cinch.open(stored));
      assertThrows(DictionaryMissing.class, () -> cinch.open(Envelope.seal(bytes(MENU), 3, new Dictionary(bytes(MENU)))));
    }
  }

  @Test
  void jedisAsksInBothProtocols() {
    for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) {
      DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).build();
      try (UnifiedJedis jedis = new UnifiedJedis(new HostAndPort("127.0.0.1", server.port), config)) {
        works(new JedisCommands(jedis));
      }
    }
  }

  @Test
  void lettuceAsksInBothProtocols() {
    for (ProtocolVersion protocol : ProtocolVersion.values()) {
      works(new LettuceCommands(uri, ClientOptions.builder().protocolVersion(protocol).build()));
    }
  }

  @Test
  void jedis() {
    try (Cinch cinch = cinch()) {
      byte[] key = bytes("menu:1");
      server.plain.set(key, cinch.seal(key, bytes(MENU)));
      assertStored(server.stored("menu:1"), MENU, dictionary.number());
      assertArrayEquals(bytes(MENU), cinch.open(server.plain.get(key)));
      assertNull(cinch.open(server.plain.get(bytes("nothing"))));
    }
  }

  @Test
  void lettuceInBothProtocols() {
    for (ProtocolVersion protocol : ProtocolVersion.values()) {
      lettuce.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
      try (Cinch cinch = Cinch.of(new LettuceCommands(uri))) {
        RedisCommands<String, String> r = lettuce(cinch, Address.string("menu:1"));
        r.mset(Map.of("menu:1", MENU, "menu:2", MENU));
        assertStored(server.stored("menu:1"), MENU, dictionary.number());
        assertEquals(KeyValue.just("menu:2", MENU), r.mget("nothing", "menu:2").get(1));
        assertNull(r.get("nothing"));
        r.hset("menu:h", Map.of("a", MENU, "b", "short"));
        assertStored(server.plain.hget(bytes("menu:h"), bytes("a")), MENU, dictionary.number());
        assertEquals(Map.of("a", MENU, "b", "short"), r.hgetall("menu:h"));
      }
    }
  }

  @Test
  void theAddressChoosesTheRule() {
    try (Cinch cinch = cinch()) {
      lettuce(cinch, Address.string("note:1")).set("menu:1", MENU);
      lettuce(cinch, Address.string("lock:1")).set("menu:2", MENU);
      lettuce(cinch, Address.stream("menu:1", "f")).set("menu:3", MENU);
      for (String key : new String[] {"menu:1", "menu:2", "menu:3"}) {
        assertArrayEquals(bytes(MENU), server.stored(key));
      }
    }
  }

  @Test
  void whatIsNeverSealed() {
    try (Cinch cinch = cinch()) {
      RedisCommands<String, String> r = lettuce(cinch, Address.string("menu:1"));
      r.set("n", "123456");
      assertEquals(123457, server.plain.incr("n"));
      byte[] looks = {(byte) 0xc1, (byte) 0xdd, (byte) 0xdc, 1};
      for (Address a : new Address[] {Address.string("menu:1"), Address.string("note:1")}) {
        assertTrue(cinch.seal(a, looks).length > looks.length);
        assertArrayEquals(looks, cinch.open(cinch.seal(a, looks)));
      }
    }
  }

  @Test
  void damageIsAnErrorAndTheConnectionGoesOn() {
    try (Cinch cinch = cinch()) {
      RedisCommands<String, String> r = lettuce(cinch, Address.string("menu:1"));
      r.set("menu:1", MENU);
      byte[] stored = server.stored("menu:1");
      stored[stored.length - 1] ^= 1;
      server.plain.set(bytes("menu:1"), stored);
      assertArrayEquals(stored, assertThrows(Damaged.class, () -> r.getdel("menu:1")).stored());
      r.set("menu:2", MENU);
      assertEquals(MENU, r.get("menu:2"));
    }
  }

  @Test
  void spring() {
    LettuceConnectionFactory factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", server.port));
    factory.afterPropertiesSet();
    factory.start();
    try (Cinch cinch = cinch()) {
      RedisTemplate<String, Object> template = new RedisTemplate<>();
      template.setConnectionFactory(factory);
      template.setKeySerializer(RedisSerializer.string());
      template.setHashKeySerializer(RedisSerializer.string());
      template.setValueSerializer(new CinchSerializer<>(cinch, RedisSerializer.java(), Address.string("menu:1")));
      template.setHashValueSerializer(new CinchSerializer<>(cinch, RedisSerializer.string(), Address.hash("menu:h", "a")));
      template.afterPropertiesSet();
      String value = MENU.repeat(2);
      template.opsForValue().set("menu:1", value);
      assertTrue(Envelope.isSealed(server.stored("menu:1")));
      assertEquals(value, template.opsForValue().get("menu:1"));
      assertNull(template.opsForValue().get("nothing"));
      template.opsForHash().put("menu:h", "a", MENU);
      assertStored(server.plain.hget(bytes("menu:h"), bytes("a")), MENU, dictionary.number());
      assertEquals(MENU, template.opsForHash().get("menu:h", "a"));
      server.plain.set(bytes("menu:1"), new byte[] {(byte) 0xc1, (byte) 0xdd, (byte) 0xdc});
      Throwable e = assertThrows(SerializationException.class, () -> template.opsForValue().get("menu:1"));
      assertInstanceOf(Damaged.class, e.getCause());
    } finally {
      factory.destroy();
    }
  }

  @Test
  void rollsOver() {
    Dictionary next = server.hold(bytes(CONTENT + MENU));
    try (Cinch cinch = cinch()) {
      byte[] before = cinch.seal(bytes("menu:1"), bytes(MENU));
      server.publish(RECORD, 2, current(next));
      try (Cinch later = cinch()) {
        assertStored(later.seal(bytes("menu:1"), bytes(MENU)), MENU, next.number());
        assertArrayEquals(bytes(MENU), later.open(before));
        assertArrayEquals(bytes(MENU), cinch.open(later.seal(bytes("menu:1"), bytes(MENU))));
      }
    }
  }

  @Test
  void retired() {
    server.load("cinch_retired_" + Dictionary.name(dictionary.number()), "''", "1");
    try (Cinch cinch = cinch()) {
      assertEquals(0, Header.parse(cinch.seal(bytes("menu:1"), bytes(MENU.repeat(4)))).dictionary);
    }
  }

  @Test
  void withoutAPolicyOrWithALaterOneNothingIsSealed() {
    server.publish(Policy.RECORD, 2, "{\"format\": 2, \"rules\": [{\"anything\": \"else\"}]}");
    try (Cinch cinch = cinch()) {
      assertFalse(Envelope.isSealed(cinch.seal(bytes("menu:1"), bytes(MENU))));
    }
    server.plain.functionFlush();
    try (Cinch cinch = cinch()) {
      assertFalse(Envelope.isSealed(cinch.seal(bytes("menu:1"), bytes(MENU))));
    }
  }

  @Test
  void threads() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(8);
    try (Cinch cinch = cinch()) {
      List<Future<?>> works = new ArrayList<>();
      for (int seed = 0; seed < 8; seed++) {
        Random random = new Random(seed);
        works.add(threads.submit(() -> sealsAndOpens(cinch, random)));
      }
      for (Future<?> work : works) {
        work.get();
      }
    } finally {
      threads.shutdown();
    }
  }

  private static void sealsAndOpens(Cinch cinch, Random random) {
    for (int i = 0; i < 500; i++) {
      byte[] value = bytes(MENU.repeat(1 + random.nextInt(3)) + random.nextLong());
      assertArrayEquals(value, cinch.open(cinch.seal(bytes("menu:1"), value)));
    }
  }
}
