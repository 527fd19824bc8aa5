import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;

/** Turns the scenario's arguments into bytes. */
final class Values {
  final Map<String, byte[]> saved = new HashMap<>();
  private final JsonObject named;
  private final JsonArray words;

  Values(JsonObject scenario) {
    named = scenario.getAsJsonObject("values");
    words = scenario.getAsJsonArray("words");
  }

  byte[][] all(JsonArray args) {
    byte[][] out = new byte[args.size()][];
    for (int i = 0; i < out.length; i++) {
      out[i] = make(args.get(i));
    }
    return out;
  }

  byte[] make(JsonElement element) {
    if (element.isJsonPrimitive()) {
      return element.getAsString().getBytes(StandardCharsets.UTF_8);
    }
    JsonObject spec = element.getAsJsonObject();
    if (spec.has("v")) {
      return make(named.get(spec.get("v").getAsString()));
    } else if (spec.has("concat")) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      spec.getAsJsonArray("concat").forEach(part -> out.writeBytes(make(part)));
      return out.toByteArray();
    } else if (spec.has("saved")) {
      byte[] nothing = "nothing was saved".getBytes(StandardCharsets.UTF_8);
      return saved.getOrDefault(spec.get("saved").getAsString(), nothing);
    } else if (!spec.has("gen")) {
      return HexFormat.of().parseHex(spec.get("hex").getAsString());
    }
    int len = spec.get("len").getAsInt();
    return switch (spec.get("gen").getAsString()) {
      case "repeat" -> repeat(spec, len);
      case "random" -> random(spec.get("seed").getAsInt(), len);
      case "json" -> json(spec.get("seed").getAsInt(), len);
      default -> throw new IllegalArgumentException("unknown generator: " + spec);
    };
  }

  private static byte[] repeat(JsonObject spec, int len) {
    byte[] unit = spec.has("hex")
        ? HexFormat.of().parseHex(spec.get("hex").getAsString())
        : spec.get("text").getAsString().getBytes(StandardCharsets.UTF_8);
    byte[] out = new byte[len];
    for (int i = 0; i < len; i++) {
      out[i] = unit[i % unit.length];
    }
    return out;
  }

  private static byte[] random(int seed, int len) {
    Generator rand = new Generator(seed);
    byte[] out = new byte[len];
    for (int i = 0; i < len; i++) {
      out[i] = (byte) rand.next();
    }
    return out;
  }

  private byte[] json(int seed, int len) {
    Generator rand = new Generator(seed);
    StringBuilder out = new StringBuilder("[");
    for (int i = 0; out.length() < len; i++) {
      out.append("{\"id\":").append(i);
      out.append(",\"name\":\"").append(word(rand)).append(' ').append(word(rand));
      out.append("\",\"city\":\"").append(word(rand));
      out.append("\",\"score\":").append(rand.next());
      out.append(",\"tags\":[\"").append(word(rand)).append("\",\"").append(word(rand)).append("\"]},");
    }
    return Arrays.copyOf(out.toString().getBytes(StandardCharsets.UTF_8), len);
  }

  private String word(Generator rand) {
    return words.get(rand.next() % words.size()).getAsString();
  }

  /** A linear congruential generator of bytes, the same in every language. */
  private static final class Generator {
    private int state;

    Generator(int seed) {
      state = seed;
    }

    int next() {
      state = state * 1664525 + 1013904223;
      return state >>> 24;
    }
  }
}
