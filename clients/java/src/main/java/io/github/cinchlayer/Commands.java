package io.github.cinchlayer;

import java.util.List;

/**
 * How a library asks a Redis server: by a client that is there anyway. There are some for Lettuce and one for Jedis; another takes a few
 * lines. Commands come one at a time, from any thread.
 */
public interface Commands extends AutoCloseable {
  /**
   * Sends a command to database 0 and waits for the answer.
   *
   * @return null, byte[], Long, or a List or Map of those
   * @throws RuntimeException if the server answers an error, with its text as the message, or does not answer
   */
  Object execute(byte[]... command);

  /** The servers that hold values, each by itself: this one, or the primaries of a cluster. It is asked for before each question. */
  default List<Commands> servers() {
    return List.of(this);
  }

  /** Frees what the client needed, where it is not somebody else's. */
  @Override
  default void close() {}
}
