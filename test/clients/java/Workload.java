import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.function.Supplier;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;

/** HOST PORT LIBRARY PREFIX: what python/workload.py does, with Lettuce or Jedis. */
public class Workload {
  static final String SCRIPT = "redis.call('SET',KEYS[1],ARGV[1]) return redis.call('STRLEN',KEYS[1])";

  interface Client {
    void set(String k, String v);

    String get(String k);

    long strlen(String k);

    void hset(String k, Map<String, String> fields);

    String hget(String k, String f);

    void setrange(String k, long at, String v);

    void sadd(String k, String m);

    Set<String> smembers(String k);

    long script(String k, String v);

    List<String> nodes();
  }

  static class Lettuce implements Client {
    final RedisAdvancedClusterCommands<String, String> c;

    Lettuce(String host, int port) {
      RedisClusterClient client = RedisClusterClient.create(RedisURI.builder().withHost(host).withPort(port).withTimeout(Duration.ofSeconds(10)).build());
      ClusterTopologyRefreshOptions refresh =
          ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers().adaptiveRefreshTriggersTimeout(Duration.ofMillis(200)).enablePeriodicRefresh(Duration.ofSeconds(1)).build();
      client.setOptions(
          ClusterClientOptions.builder()
              .topologyRefreshOptions(refresh)
              .timeoutOptions(TimeoutOptions.enabled(Duration.ofSeconds(10)))
              .socketOptions(SocketOptions.builder().connectTimeout(Duration.ofSeconds(2)).build())
              .build());
      c = client.connect().sync();
    }

    public void set(String k, String v) { c.set(k, v); }

    public String get(String k) { return c.get(k); }

    public long strlen(String k) { return c.strlen(k); }

    public void hset(String k, Map<String, String> fields) { c.hset(k, fields); }

    public String hget(String k, String f) { return c.hget(k, f); }

    public void setrange(String k, long at, String v) { c.setrange(k, at, v); }

    public void sadd(String k, String m) { c.sadd(k, m); }

    public Set<String> smembers(String k) { return c.smembers(k); }

    public long script(String k, String v) { return c.<Long>eval(SCRIPT, ScriptOutputType.INTEGER, new String[] {k}, v); }

    public List<String> nodes() {
      List<String> all = new ArrayList<>();
      c.getStatefulConnection().getPartitions().forEach(p -> all.add(p.getUri().getHost() + ":" + p.getUri().getPort()));
      return all;
    }
  }

  static class Jedis implements Client {
    final JedisCluster c;

    Jedis(String host, int port) {
      c = new JedisCluster(Set.of(new HostAndPort(host, port)), DefaultJedisClientConfig.builder().timeoutMillis(10_000).build(), 10);
    }

    public void set(String k, String v) { c.set(k, v); }

    public String get(String k) { return c.get(k); }

    public long strlen(String k) { return c.strlen(k); }

    public void hset(String k, Map<String, String> fields) { c.hset(k, fields); }

    public String hget(String k, String f) { return c.hget(k, f); }

    public void setrange(String k, long at, String v) { c.setrange(k, at, v); }

    public void sadd(String k, String m) { c.sadd(k, m); }

    public Set<String> smembers(String k) { return c.smembers(k); }

    public long script(String k, String v) { return (Long) c.eval(SCRIPT, List.of(k), List.of(v)); }

    public List<String> nodes() { return new ArrayList<>(c.getClusterNodes().keySet()); }
  }

  static class Worker extends Thread {
    final Client client;
    final String name;
    final Random random;
    Set<String> text = new HashSet<>(), field = new HashSet<>();
    final Set<String> members = new HashSet<>(), maybe = new HashSet<>();
    long done, unknown, tried;
    final List<String> wrong = new ArrayList<>();
    String state = "run";
    boolean idle;

    Worker(Client client, String name) {
      this.client = client;
      this.name = name;
      random = new Random(name.hashCode());
      text.add(null);
      field.add(null);
    }

    @Override
    public void run() {
      while (proceeds()) {
        step();
      }
      for (int i = 0; i < 100; i++) { // until the cluster answers again
        long before = unknown;
        check();
        if (unknown == before) {
          break;
        }
        if (i == 99) {
          wrong.add("nothing can be read at the end");
        }
      }
      synchronized (this) {
        idle = true;
        notifyAll();
      }
    }

    synchronized boolean proceeds() {
      while (state.equals("pause")) {
        idle = true;
        notifyAll();
        await();
      }
      idle = false;
      return !state.equals("stop") && wrong.isEmpty();
    }

    synchronized void tell(String order) {
      state = order;
      notifyAll();
    }

    synchronized void awaitIdle() {
      while (!idle) {
        await();
      }
    }

    void await() {
      try {
        wait(60_000);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }

    String value() {
      return random.nextLong() + ":" + "hello, sealed world; ".repeat(1 + random.nextInt(60));
    }

    /** The answer in a list of one; nothing where it is not known what happened. */
    <T> List<T> tryTo(Supplier<T> act) {
      done++;
      List<T> answer = new ArrayList<>();
      try {
        answer.add(act.get());
      } catch (RuntimeException e) {
        unknown++;
        if (String.valueOf(e).contains("cinch")) {
          wrong.add(name + ": " + e);
        }
        try {
          sleep(50);
        } catch (InterruptedException i) {
          throw new IllegalStateException(i);
        }
      }
      return answer;
    }

    boolean does(Runnable act) {
      return !tryTo(() -> { act.run(); return 1; }).isEmpty();
    }

    static Set<String> wrote(Set<String> may, boolean known, String value) {
      Set<String> next = known ? new HashSet<>() : may;
      next.add(value);
      return next;
    }

    void step() {
      String k = name + "k", h = name + "h", s = name + "s", v = value();
      switch (random.nextInt(8)) {
        case 0, 1 -> text = wrote(text, does(() -> client.set(k, v)), v);
        case 2 -> {
          Map<String, String> fields = new HashMap<>(Map.of("f", v, "n", "1"));
          field = wrote(field, does(() -> client.hset(h, fields)), v);
        }
        case 3 -> {
          List<Long> n = tryTo(() -> client.script(k, v));
          text = wrote(text, !n.isEmpty(), v);
          if (!n.isEmpty() && n.get(0) != v.length()) {
            wrong.add(name + ": the script said " + n.get(0) + ", not " + v.length());
          }
        }
        case 4 -> {
          boolean known = does(() -> client.setrange(k, 3, "****"));
          Set<String> changed = new HashSet<>();
          for (String x : text) {
            changed.add(x == null ? "\0\0\0****" : x.substring(0, 3) + "****" + x.substring(7));
          }
          if (!known) {
            changed.addAll(text);
          }
          text = changed;
        }
        case 5 -> {
          String member = String.valueOf(++tried);
          (does(() -> client.sadd(s, member)) ? members : maybe).add(member);
        }
        default -> check();
      }
    }

    void check() {
      String k = name + "k", h = name + "h", s = name + "s";
      text = narrow("the string", text, tryTo(() -> client.get(k)));
      field = narrow("the field", field, tryTo(() -> client.hget(h, "f")));
      for (long n : tryTo(() -> client.strlen(k))) {
        if (text.stream().noneMatch(x -> (x == null ? 0 : x.length()) == n)) {
          wrong.add(name + ": STRLEN " + n);
        }
      }
      for (Set<String> got : tryTo(() -> client.smembers(s))) {
        Set<String> all = new HashSet<>(members);
        all.addAll(maybe);
        if (!got.containsAll(members) || !all.containsAll(got)) {
          wrong.add(name + ": " + got.size() + " members, not " + members.size() + " to " + all.size());
        }
      }
    }

    Set<String> narrow(String what, Set<String> may, List<String> answer) {
      for (String got : answer) {
        if (may.stream().noneMatch(x -> Objects.equals(x, got))) {
          wrong.add(name + ": " + what + " is " + (got == null ? null : got.substring(0, Math.min(80, got.length()))) + ", none of " + may.size() + " that it may be");
          return may;
        }
        Set<String> one = new HashSet<>();
        one.add(got);
        return one;
      }
      return may;
    }
  }

  public static void main(String[] args) throws Exception {
    String host = args[0], library = args[2], prefix = args[3];
    int port = Integer.parseInt(args[1]);
    Client client = library.equals("lettuce") ? new Lettuce(host, port) : new Jedis(host, port);
    List<Worker> workers = List.of(new Worker(client, "{" + prefix + "0}"), new Worker(client, "{" + prefix + "1}"));
    workers.forEach(Thread::start);
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String order = in.readLine(); order != null; order = in.readLine()) {
      for (Worker w : workers) {
        w.tell(order.equals("resume") ? "run" : order);
      }
      if (!order.equals("resume")) {
        workers.forEach(Worker::awaitIdle);
      }
      System.out.println(Map.of("pause", "paused", "resume", "resumed", "stop", "stopped").get(order));
      if (order.equals("stop")) {
        break;
      }
    }
    for (Worker w : workers) {
      w.join();
      w.wrong.forEach(text -> System.out.println("wrong " + text));
    }
    client.nodes().forEach(node -> System.out.println("node " + node));
    System.out.println("done " + workers.stream().mapToLong(w -> w.done).sum() + " unknown " + workers.stream().mapToLong(w -> w.unknown).sum());
    System.exit(0); // Lettuce's threads
  }
}
