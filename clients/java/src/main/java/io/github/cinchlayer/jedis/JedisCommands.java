package io.github.cinchlayer.jedis;

import io.github.cinchlayer.Commands;
import java.util.Arrays;
import java.util.Set;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;

/** Asks by Jedis: a JedisPooled or RedisClient of database 0, or one of Sentinels; it stays its owner's to close. */
public final class JedisCommands implements Commands {
  private static final Set<String> CLUSTERS = Set.of("redis.clients.jedis.JedisCluster", "redis.clients.jedis.RedisClusterClient");

  private final UnifiedJedis jedis;

  /**
   * @throws IllegalArgumentException for a client of a cluster, which asks any of its servers where all have to be asked
   */
  public JedisCommands(UnifiedJedis jedis) {
    for (Class<?> type = jedis.getClass(); type != null; type = type.getSuperclass()) {
      if (CLUSTERS.contains(type.getName())) {
        throw new IllegalArgumentException("Cinch can't ask a cluster by Jedis: use LettuceClusterCommands, values may be read and written by Jedis");
      }
    }
    this.jedis = jedis;
  }

  @Override
  public Object execute(byte[]... command) {
    ProtocolCommand name = () -> command[0];
    return jedis.sendCommand(name, Arrays.copyOfRange(command, 1, command.length));
  }
}
