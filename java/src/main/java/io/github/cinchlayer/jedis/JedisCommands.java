package io.github.cinchlayer.jedis;

import io.github.cinchlayer.Commands;
import java.util.Arrays;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;

/** Asks by Jedis: a JedisPooled or RedisClient of database 0, which stays its owner's to close. */
public final class JedisCommands implements Commands {
  private final UnifiedJedis jedis;

  public JedisCommands(UnifiedJedis jedis) {
    this.jedis = jedis;
  }

  @Override
  public Object execute(byte[]... command) {
    ProtocolCommand name = () -> command[0];
    return jedis.sendCommand(name, Arrays.copyOfRange(command, 1, command.length));
  }
}
