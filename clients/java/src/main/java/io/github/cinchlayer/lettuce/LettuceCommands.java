package io.github.cinchlayer.lettuce;

import io.github.cinchlayer.Commands;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;

/**
 * Asks one server by Lettuce; for a cluster there is {@link LettuceClusterCommands}. Codecs are called by the threads that Lettuce reads and writes with, and those must not wait for themselves: so this
 * has a client, a connection and threads of its own.
 */
public final class LettuceCommands implements Commands {
  private final RedisClient client;
  private StatefulRedisConnection<byte[], byte[]> connection;

  /** Connects when it is asked for the first time. Of Sentinels' URIs that is to the primary, also after a failover. */
  public LettuceCommands(RedisURI uri) {
    this(uri, ClientOptions.create());
  }

  /** With options such as those of TLS. */
  public LettuceCommands(RedisURI uri, ClientOptions options) {
    client = RedisClient.create(ofDatabaseZero(uri));
    client.setOptions(options);
  }

  /** A builder takes everything but the Sentinels. */
  private static RedisURI ofDatabaseZero(RedisURI uri) {
    RedisURI.Builder copy = RedisURI.builder(uri).withDatabase(0);
    uri.getSentinels().forEach(copy::withSentinel);
    if (uri.getSentinelMasterId() != null) {
      copy.withSentinelMasterId(uri.getSentinelMasterId());
    }
    return copy.build();
  }

  @Override
  public Object execute(byte[]... command) {
    return dispatch(connection(), command);
  }

  static Object dispatch(StatefulRedisConnection<byte[], byte[]> connection, byte[]... command) {
    CommandArgs<byte[], byte[]> args = new CommandArgs<>(ByteArrayCodec.INSTANCE);
    for (int i = 1; i < command.length; i++) {
      args.add(command[i]);
    }
    return connection.sync().dispatch(new Name(command[0]), new Answer(), args);
  }

  private synchronized StatefulRedisConnection<byte[], byte[]> connection() {
    if (connection == null) {
      connection = client.connect(ByteArrayCodec.INSTANCE);
    }
    return connection;
  }

  @Override
  public void close() {
    client.shutdown();
  }

  private static final class Name implements ProtocolKeyword {
    private final byte[] bytes;

    Name(byte[] bytes) {
      this.bytes = bytes;
    }

    @Override
    public byte[] getBytes() {
      return bytes;
    }

    @Override
    public String toString() {
      return new String(bytes, StandardCharsets.US_ASCII);
    }
  }
}
