package io.github.cinchlayer.lettuce;

import io.github.cinchlayer.Commands;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.models.role.RedisInstance;
import java.util.List;
import java.util.stream.Collectors;

/** Asks the primaries of a cluster by Lettuce, with a client, connections and threads of its own. */
public final class LettuceClusterCommands implements Commands {
  private final RedisClusterClient client;
  private StatefulRedisClusterConnection<byte[], byte[]> connection;

  /** Connects when it is asked for the first time, to any node of those given. */
  public LettuceClusterCommands(Iterable<RedisURI> uris) {
    this(uris, ClusterClientOptions.create());
  }

  /** With options such as those of TLS. */
  public LettuceClusterCommands(Iterable<RedisURI> uris, ClusterClientOptions options) {
    client = RedisClusterClient.create(uris);
    client.setOptions(options);
  }

  /** Values move between primaries: those are looked for each time. */
  @Override
  public synchronized List<Commands> servers() {
    if (connection == null) {
      connection = client.connect(ByteArrayCodec.INSTANCE);
    } else {
      client.refreshPartitions();
    }
    return connection.getPartitions().stream()
        .filter(node -> node.getRole() == RedisInstance.Role.UPSTREAM && !node.getSlots().isEmpty())
        .map(RedisClusterNode::getNodeId)
        .map(this::node)
        .collect(Collectors.toList());
  }

  private Commands node(String id) {
    return command -> LettuceCommands.dispatch(connection.getConnection(id), command);
  }

  @Override
  public Object execute(byte[]... command) {
    return servers().get(0).execute(command);
  }

  @Override
  public void close() {
    client.shutdown();
  }
}
