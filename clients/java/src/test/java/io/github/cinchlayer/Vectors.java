package io.github.cinchlayer;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/** The frozen vectors of envelope/testdata/vectors. */
final class Vectors {
  static final Path ROOT = Path.of("..", "..", "envelope", "testdata", "vectors");

  private Vectors() {}

  static List<Vector> all() {
    List<Vector> all = new ArrayList<>();
    JsonParser.parseString(new String(read("index.json"))).getAsJsonArray().forEach(v -> all.add(new Vector(v.getAsJsonObject())));
    return all;
  }

  static byte[] read(String name) {
    try {
      return Files.readAllBytes(ROOT.resolve(name));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static IntFunction<Dictionary> only(Dictionary dictionary) {
    return number -> dictionary != null && dictionary.number() == number ? dictionary : null;
  }

  static final class Vector {
    final String name;
    final String error; // null where it opens
    final byte[] stored;
    final byte[] value;
    final Dictionary dictionary;
    final int maxRaw;

    Vector(JsonObject v) {
      name = v.get("name").getAsString();
      error = v.has("error") ? v.get("error").getAsString() : null;
      stored = read(v.get("stored").getAsString());
      value = error == null ? read(v.get("value").getAsString()) : null;
      dictionary = v.has("dictionary") ? new Dictionary(read(v.get("dictionary").getAsString())) : null;
      maxRaw = v.has("max_raw") ? v.get("max_raw").getAsInt() : Envelope.DEFAULT_MAX_RAW;
    }

    byte[] open(byte[] bytes) {
      return Envelope.open(bytes, only(dictionary), maxRaw);
    }
  }
}
