package io.github.cinchlayer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.github.cinchlayer.EnvelopeException.Damaged;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import org.junit.jupiter.api.Test;

/** Opens what envelope/testdata/bombs has: few bytes that declare many, and counts the work, which no clock does. */
class BombsTest {
  @Test
  void workIsBounded() throws IOException {
    JsonArray bombs = JsonParser.parseString(Files.readString(Path.of("..", "..", "envelope", "testdata", "bombs", "index.json"))).getAsJsonArray();
    assertTrue(bombs.size() > 15);
    for (JsonElement e : bombs) {
      JsonObject bomb = e.getAsJsonObject();
      String name = bomb.get("name").getAsString();
      byte[] stored = Base64.getDecoder().decode(bomb.get("stored").getAsString());
      int rawLength = bomb.get("raw_len").getAsInt();
      if (bomb.has("error")) {
        assertThrows(Damaged.class, () -> Envelope.open(stored, number -> null, Envelope.DEFAULT_MAX_RAW), name);
      } else {
        byte[] value = Envelope.open(stored, number -> null, Envelope.DEFAULT_MAX_RAW);
        assertArrayEquals(repeated(Base64.getDecoder().decode(bomb.get("period").getAsString()), rawLength), value, name);
      }
      int pieces = pieces(bomb.get("codec").getAsString(), Arrays.copyOfRange(stored, Header.parse(stored).length, stored.length), rawLength);
      assertTrue(pieces <= 3 * stored.length + 100, () -> name + ": " + pieces + " pieces for " + stored.length + " bytes");
    }
  }

  private static byte[] repeated(byte[] period, int n) {
    byte[] value = new byte[n];
    for (int i = 0; i < n; i++) {
      value[i] = period[i % period.length];
    }
    return value;
  }

  private static int pieces(String codec, byte[] payload, int rawLength) {
    Block block = new Block(payload, rawLength);
    try {
      switch (codec) {
        case "snappy":
          block.snappy(false);
          break;
        case "s2":
          block.snappy(true);
          break;
        case "minlz":
          block.minlz();
          break;
        case "lz4":
          block.lz4();
          break;
        default: // Java's own, and libzstd
      }
    } catch (Damaged | IndexOutOfBoundsException e) {
      // as far as it came
    }
    return block.pieces;
  }

  @Test
  void noPatternGoesBackOverStars() {
    Glob glob = new Glob("*a".repeat(40) + "*b");
    byte[] text = "a".repeat(5000).getBytes(StandardCharsets.UTF_8);
    assertFalse(glob.matches(text));
    text[text.length - 1] = 'b';
    assertTrue(glob.matches(text));
  }
}
