package io.github.cinchlayer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cinchlayer.EnvelopeException.DictionaryMissing;
import io.github.cinchlayer.EnvelopeException.DictionaryUnavailable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What needs no server: rules, and what a server may answer. */
class PolicyTest {
  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  @Test
  void integersAreNeverSealed() {
    for (String value : new String[] {"0", "-5", "123456", "9223372036854775807", "-9223372036854775808", "HYLL\u0001", "HYLL and as long as you like"}) {
      assertTrue(Policy.neverSealed(bytes(value)), value);
    }
    for (String value : new String[] {"", "-", "--5", "-0", "007", "5-", "+5", " 5", "5\n", "9223372036854775808", "HYL", "123456789012345678901"}) {
      assertFalse(Policy.neverSealed(bytes(value)), value);
    }
  }

  @Test
  void globs() {
    String[][] matching = {
      {"*", ""}, {"menu:*", "menu:"}, {"menu:*", "menu:7"}, {"m?nu", "menu"}, {"[ab]c", "bc"}, {"[^ab]c", "xc"}, {"[a-c]", "b"}, {"[c-a]", "b"},
      {"\\*", "*"}, {"a*b*c", "a--b--b--c"}, {"**", "x"}, {"[a", "a"}, {"[\\]]", "]"}, {"a\\", "a\\"}, {"*:é", "x:é"}, {"a\nb*", "a\nb\n"}, {"[a-", "-"},
    };
    for (String[] pair : matching) {
      assertTrue(new Glob(pair[0]).matches(bytes(pair[1])), Arrays.toString(pair));
    }
    String[][] others = {{"", "x"}, {"menu:*", "menu"}, {"m?nu", "mnu"}, {"[^ab]c", "ac"}, {"[]", "x"}, {"\\*", "x"}, {"a*b", "abc"}, {"a", "ab"}};
    for (String[] pair : others) {
      assertFalse(new Glob(pair[0]).matches(bytes(pair[1])), Arrays.toString(pair));
    }
  }

  @Test
  void sizesAreTheServers() { // of clients/python/cinch/size.py
    int[] lengths = {0, 1, 44, 45, 63, 64, 109, 120, 124, 125, 126, 127, 128, 255, 256, 1000, 5000, 70000, 3000000};
    long[] strings = {32, 32, 64, 80, 96, 96, 144, 144, 144, 176, 176, 176, 176, 336, 336, 1040, 5136, 81936, 3145744};
    long[] texts = {8, 8, 48, 64, 80, 80, 128, 128, 128, 160, 160, 160, 160, 320, 320, 1024, 5120, 81920, 3145728};
    long[] entries = {2, 3, 46, 47, 65, 67, 112, 123, 127, 128, 130, 131, 132, 259, 260, 1004, 5007, 70008, 3000009};
    assertArrayEquals(strings, Arrays.stream(lengths).mapToLong(Size::string).toArray());
    assertArrayEquals(texts, Arrays.stream(lengths).mapToLong(Size::text).toArray());
    assertArrayEquals(entries, Arrays.stream(lengths).mapToLong(Size::listpack).toArray());
  }

  /** A server that has functions or keys, by "COMMAND key". */
  private static final class Fake implements Commands {
    final Map<String, Object> answers = new HashMap<>();
    RuntimeException otherwise; // what FUNCTION answers instead

    @Override
    public Object execute(byte[]... command) {
      String text = Arrays.stream(command).map(String::new).collect(Collectors.joining(" "));
      Object answer = answers.get(text);
      if (answer instanceof RuntimeException) {
        throw (RuntimeException) answer;
      }
      if (answer == null && text.startsWith("F")) {
        if (otherwise != null) {
          throw otherwise;
        }
        return Collections.emptyList();
      }
      return answer == null && text.startsWith("EXISTS") ? Long.valueOf(0) : answer;
    }
  }

  private static final byte[] CONTENT = bytes("what values have in common");
  private static final int NUMBER = Dictionary.number(CONTENT);
  private static final String NAME = Dictionary.name(NUMBER);

  private static Dictionary found(String place, Object answer) {
    Fake fake = new Fake();
    fake.answers.put(place, answer);
    return new Store(fake).dictionary(NUMBER);
  }

  /** What FUNCTION LIST answers of a library. */
  private static Object listed(String name, String source) {
    return Arrays.asList(Arrays.asList(bytes("library_name"), bytes(name), bytes("functions"), List.of(), bytes("library_code"), bytes(source)));
  }

  private static final String LIST = "FUNCTION LIST LIBRARYNAME cinch_*_" + NAME + " WITHCODE";

  @Test
  void dictionariesHaveFourPlaces() {
    String plain = "#!lua name=x\nreturn '" + Base64.getEncoder().encodeToString(CONTENT) + "' end";
    String compressed = compressed(CONTENT, CONTENT.length);
    for (String source : Arrays.asList(plain, compressed)) {
      assertEquals(NUMBER, found(LIST, listed("cinch_dict_" + NAME, source)).number());
      assertEquals(NUMBER, found(LIST, listed("cinch_archive_" + NAME, source)).number());
    }
    assertEquals(NUMBER, found("GET cinch:dict:" + NAME, CONTENT).number());
    assertEquals(NUMBER, found("GET cinch:dict:archive:" + NAME, CONTENT).number());
  }

  private static String compressed(byte[] content, int size) {
    byte[] frame = com.github.luben.zstd.Zstd.compress(content);
    return "#!lua name=x\n-- zstd " + size + " " + Base64.getEncoder().encodeToString(frame) + "\nend";
  }

  @Test
  void aDamagedLibraryIsNoDictionary() {
    byte[] bomb = new byte[64 << 20];
    for (String source : Arrays.asList("\n-- zstd 26 !!!\n", "something else", compressed(CONTENT, 16), compressed(bomb, 26), "\n-- zstd 26 KA==\n")) {
      assertThrows(DictionaryMissing.class, () -> found(LIST, listed("cinch_dict_" + NAME, source)), source);
    }
  }

  @Test
  void anotherContentIsNoDictionary() {
    assertThrows(DictionaryMissing.class, () -> new Store(new Fake()).dictionary(NUMBER));
    assertThrows(DictionaryMissing.class, () -> found("GET cinch:dict:" + NAME, bytes("another content of a dictionary")));
  }

  private static byte[] sealed(Cinch cinch) {
    return cinch.seal(bytes("menu:1"), bytes("what values have in common, and more. ".repeat(10)));
  }

  /** A server before functions, and what gateways publish there. */
  private static Fake old() {
    Fake fake = new Fake();
    fake.otherwise = new RuntimeException("ERR unknown command 'FUNCTION', with args beginning with: 'LIST'");
    fake.answers.put("GET cinch:dict:rule:policy", bytes("7 {\"format\":1,\"rules\":[{\"key\":\"menu:*\",\"types\":[\"string\"],\"codec\":\"zstd\",\"record\":\"aa\"}]}"));
    fake.answers.put("GET cinch:dict:rule:aa", bytes("3 {\"current\":{\"dict\":\"" + NAME + "\"}}"));
    fake.answers.put("GET cinch:dict:" + NAME, CONTENT);
    fake.answers.put("EXISTS cinch:dict:" + NAME, 1L);
    return fake;
  }

  @Test
  void oldServersHaveKeys() {
    Fake fake = old();
    try (Cinch cinch = Cinch.of(fake)) {
      assertEquals(NUMBER, Header.parse(sealed(cinch)).dictionary);
    }
    fake.answers.put("EXISTS cinch:dict:retired:" + NAME, 1L);
    try (Cinch cinch = Cinch.of(fake)) {
      assertEquals(0, Header.parse(sealed(cinch)).dictionary);
    }
  }

  @Test
  void twoMinutesAfterTheStoreWasAskedNoDictionaryIsNamed() {
    AtomicLong nanos = new AtomicLong();
    try (Cinch cinch = Cinch.builder(old()).clock(nanos::get).build()) {
      nanos.set(Duration.ofMinutes(2).toNanos() - 1);
      assertEquals(NUMBER, Header.parse(sealed(cinch)).dictionary);
      nanos.incrementAndGet();
      assertEquals(0, Header.parse(sealed(cinch)).dictionary);
    }
  }

  @Test
  void anotherUserHasOtherDictionaries() {
    try (Cinch cinch = Cinch.builder(old()).user("app").build()) {
      assertEquals(0, Header.parse(sealed(cinch)).dictionary);
    }
  }

  @Test
  void withoutAnAnswerNothingIsSealed() {
    Fake fake = old();
    byte[] stored;
    try (Cinch cinch = Cinch.of(fake)) {
      stored = sealed(cinch);
    }
    fake.otherwise = new RuntimeException("connection refused");
    try (Cinch cinch = Cinch.of(fake)) {
      assertFalse(Envelope.isSealed(sealed(cinch)));
      assertThrows(DictionaryUnavailable.class, () -> cinch.open(stored));
    }
  }
}
