package io.github.cinchlayer.spring;

import io.github.cinchlayer.Address;
import io.github.cinchlayer.Cinch;
import io.github.cinchlayer.EnvelopeException;
import org.springframework.data.redis.serializer.RedisSerializer;
import org.springframework.data.redis.serializer.SerializationException;

/**
 * Seals what another serializer writes, and opens before that reads.
 *
 * <p>A serializer sees no keys. So one stands for one kind of values, that of a template or a cache: each is sealed as if it were at the
 * given address, whatever its key. Opening does not depend on the address.
 */
public final class CinchSerializer<T> implements RedisSerializer<T> {
  private final Cinch cinch;
  private final RedisSerializer<T> inner;
  private final Address address;

  /**
   * A serializer for values like the one at the address.
   *
   * @param address an example, such as Address.string("menus::1"): the rules that cover it hold for all values
   */
  public CinchSerializer(Cinch cinch, RedisSerializer<T> inner, Address address) {
    this.cinch = cinch;
    this.inner = inner;
    this.address = address;
  }

  @Override
  public byte[] serialize(T value) {
    byte[] bytes = inner.serialize(value);
    return bytes == null ? null : cinch.seal(address, bytes);
  }

  /** What can't be opened is a SerializationException, as Spring's callers expect, whose cause says why. */
  @Override
  public T deserialize(byte[] stored) {
    try {
      return inner.deserialize(cinch.open(stored));
    } catch (EnvelopeException e) {
      throw new SerializationException("Cannot open a value compressed by Cinch", e);
    }
  }

  @Override
  public boolean canSerialize(Class<?> type) {
    return inner.canSerialize(type);
  }

  @Override
  public Class<?> getTargetType() {
    return inner.getTargetType();
  }
}
