package io.github.cinchlayer;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** One rule, as published. */
final class Rule {
  private static final double DEFAULT_MIN_GAIN = 0.1;
  private static final double NOTHING_GAINS = 0.999999999; // as a rule's min_gain: gateways alone seal there
  private static final String RAW = "raw";

  final boolean seals;
  final int level;
  final int dictionary; // fixed; 0: none
  private final List<String> types;
  private final String space;
  private final Glob key;
  private final Glob field;
  private final boolean strings;
  private final int minSize;
  private final int maxSize;
  private final double minGain;
  private final String record;
  private final boolean shared;

  Rule(Json text) {
    types = text.texts("types");
    space = text.text("space", "");
    key = new Glob(text.text("key", "*"));
    strings = text.text("field", "").isEmpty();
    field = new Glob(strings ? "*" : text.text("field", ""));
    minSize = text.number("min_size");
    maxSize = text.number("max_size");
    minGain = text.share("min_gain", DEFAULT_MIN_GAIN);
    String codec = text.text("codec", RAW);
    seals = !codec.equals(RAW) && !text.flag("observe") && minGain < NOTHING_GAINS;
    level = codec.equals("zstd") && text.number("level") != 0 ? text.number("level") : Envelope.DEFAULT_LEVEL;
    dictionary = text.dictionary("dictionary");
    record = text.text("record", "");
    shared = text.flag("shared");
  }

  boolean covers(String space, Address a, int size) {
    return size >= minSize
        && (maxSize == 0 || size <= maxSize)
        && types.contains(a.kind.text)
        && (this.space.isEmpty() || this.space.equals(space))
        && (strings || a.field != null)
        && key.matches(a.key)
        && (a.field == null || field.matches(a.field));
  }

  boolean worth(Kind kind, int raw, int sealed) {
    return Size.worth(kind, raw, sealed, minGain);
  }

  /** The name of the record with the rule's dictionaries, or "". The login is "" for the server's default user. */
  String record(String login) {
    if (record.isEmpty() || shared || login.isEmpty()) {
      return record;
    }
    byte[] hash = Dictionary.sha256((record + " " + login).getBytes(StandardCharsets.UTF_8));
    return String.format("%016x", ByteBuffer.wrap(hash).getLong());
  }
}
