package io.github.cinchlayer.lettuce;

import io.github.cinchlayer.Address;
import io.github.cinchlayer.Cinch;
import io.lettuce.core.codec.RedisCodec;
import java.nio.ByteBuffer;

/**
 * Seals what another codec encodes, and opens before that decodes. Keys are the other codec's.
 *
 * <p>A codec sees neither keys nor commands. So one stands for one kind of values: each is sealed as if it were at the given address,
 * whatever its key. Opening does not depend on the address.
 */
public final class CinchCodec<K, V> implements RedisCodec<K, V> {
  private final Cinch cinch;
  private final RedisCodec<K, V> inner;
  private final Address address;

  private CinchCodec(Cinch cinch, RedisCodec<K, V> inner, Address address) {
    this.cinch = cinch;
    this.inner = inner;
    this.address = address;
  }

  /**
   * A codec for values like the one at the address.
   *
   * @param address an example, such as Address.string("menu:1"): the rules that cover it hold for all values
   */
  public static <K, V> CinchCodec<K, V> of(Cinch cinch, RedisCodec<K, V> inner, Address address) {
    return new CinchCodec<>(cinch, inner, address);
  }

  @Override
  public K decodeKey(ByteBuffer bytes) {
    return inner.decodeKey(bytes);
  }

  @Override
  public ByteBuffer encodeKey(K key) {
    return inner.encodeKey(key);
  }

  @Override
  public V decodeValue(ByteBuffer bytes) {
    return inner.decodeValue(ByteBuffer.wrap(cinch.open(copy(bytes))));
  }

  @Override
  public ByteBuffer encodeValue(V value) {
    return ByteBuffer.wrap(cinch.seal(address, copy(inner.encodeValue(value))));
  }

  private static byte[] copy(ByteBuffer bytes) {
    byte[] copy = new byte[bytes.remaining()];
    bytes.get(copy);
    return copy;
  }
}
