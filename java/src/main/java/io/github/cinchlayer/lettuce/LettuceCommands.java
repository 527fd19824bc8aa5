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
 * Asks by Lettuce. Codecs are called by the threads that Lettuce reads and writes with, and those must not wait for themselves: so this
 * has a client, a connection and threads of its own.
 */
public final class LettuceCommands implements Commands {
  private final RedisClient client;
  private StatefulRedisConnection<byte[], byte[]> connection;

  /** Connects when it is asked for the first time. */
  public LettuceCommands(RedisURI uri) {
    this(uri, ClientOptions.create());
  }

  /** With options such as those of TLS. */
  public LettuceCommands(RedisURI uri, ClientOptions options) {
    client = RedisClient.create(RedisURI.builder(uri).withDatabase(0).build());
    client.setOptions(options);
  }

  @Override
  public Object execute(byte[]... command) {
    CommandArgs<byte[], byte[]> args = new CommandArgs<>(ByteArrayCodec.INSTANCE);
    for (int i = 1; i < command.length; i++) {
      args.add(command[i]);
    }
    return connection().sync().dispatch(new Name(command[0]), new Answer(), args);
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
