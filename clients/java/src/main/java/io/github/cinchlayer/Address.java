package io.github.cinchlayer;

import java.nio.charset.StandardCharsets;

/** Where a value is kept, which is what rules go by. */
public final class Address {
  final Kind kind;
  final byte[] key;
  final byte[] field; // null for strings

  private Address(Kind kind, byte[] key, byte[] field) {
    this.kind = kind;
    this.key = key;
    this.field = field;
  }

  /** The value of SET and its kin. */
  public static Address string(byte[] key) {
    return new Address(Kind.STRING, key, null);
  }

  /** The value of SET and its kin. */
  public static Address string(String key) {
    return string(key.getBytes(StandardCharsets.UTF_8));
  }

  /** A field of a hash. */
  public static Address hash(byte[] key, byte[] field) {
    return new Address(Kind.HASH, key, field);
  }

  /** A field of a hash. */
  public static Address hash(String key, String field) {
    return hash(key.getBytes(StandardCharsets.UTF_8), field.getBytes(StandardCharsets.UTF_8));
  }

  /** A field of a stream's entries. */
  public static Address stream(byte[] key, byte[] field) {
    return new Address(Kind.STREAM, key, field);
  }

  /** A field of a stream's entries. */
  public static Address stream(String key, String field) {
    return stream(key.getBytes(StandardCharsets.UTF_8), field.getBytes(StandardCharsets.UTF_8));
  }
}
