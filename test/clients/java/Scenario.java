import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.BinaryJedisPubSub;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Runs the shared scenario with Jedis and prints one line an operation.
 *
 * <p>Usage: Scenario HOST PORT RESP SCENARIO.json. A run against plain Redis and a run through the
 * gateway have to print the same.
 */
public final class Scenario {
  private final HostAndPort address;
  private final int resp;
  private final Values values;
  private final Jedis a;
  private final Jedis b;

  private Scenario(HostAndPort address, int resp, Values values) {
    this.address = address;
    this.resp = resp;
    this.values = values;
    this.a = connect();
    this.b = connect();
  }

  public static void main(String[] args) throws Exception {
    JsonObject scenario = JsonParser.parseString(Files.readString(Path.of(args[3]))).getAsJsonObject();
    HostAndPort address = new HostAndPort(args[0], Integer.parseInt(args[1]));
    int resp = Integer.parseInt(args[2]);
    Scenario run = new Scenario(address, resp, new Values(scenario));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (JsonObject step : expand(scenario, resp)) {
      out.println(step.get("name").getAsString() + "\t" + run.step(step));
    }
    run.a.close();
    run.b.close();
  }

  /** The steps for a protocol version, each "each" spelled out. */
  private static List<JsonObject> expand(JsonObject scenario, int resp) {
    List<JsonObject> steps = new ArrayList<>();
    for (JsonElement element : scenario.getAsJsonArray("steps")) {
      JsonObject step = element.getAsJsonObject();
      if (step.has("resp") && step.get("resp").getAsInt() != resp) {
        continue;
      }
      JsonArray names = new JsonArray();
      if (step.has("each")) {
        names = scenario.getAsJsonObject("groups").getAsJsonArray(step.get("each").getAsString());
      } else {
        names.add("");
      }
      for (JsonElement name : names) {
        String text = step.toString().replace("{}", name.getAsString());
        steps.add(JsonParser.parseString(text).getAsJsonObject());
      }
    }
    return steps;
  }

  private Jedis connect() {
    return new Jedis(address, DefaultJedisClientConfig.builder()
        .protocol(resp == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2)
        .socketTimeoutMillis(60_000)
        .build());
  }

  private String step(JsonObject step) throws Exception {
    if (step.has("cmd")) {
      return command(step);
    } else if (step.has("pipeline")) {
      return Replies.show(pipeline(step.getAsJsonArray("pipeline")));
    } else if (step.has("multi")) {
      return multi(step);
    } else if (step.has("block")) {
      return Replies.show(block(step));
    } else if (step.has("subscribe")) {
      return Replies.show(subscribe(step));
    } else if (step.has("track")) {
      return "left out: Jedis takes invalidations only with its cache, which wants Redis 7.4";
    }
    throw new IllegalArgumentException("unknown step: " + step);
  }

  private String command(JsonObject step) {
    Object reply = call(a, step.getAsJsonArray("cmd"));
    if (step.has("save") && reply instanceof byte[] bytes) {
      values.saved.put(step.get("save").getAsString(), bytes);
    }
    return Replies.normalise(step.has("norm") ? step.get("norm").getAsString() : "", reply);
  }

  /** Calls a command; an error is a reply. */
  private Object call(Jedis jedis, JsonArray args) {
    byte[][] all = values.all(args);
    try {
      return jedis.sendCommand(name(all), rest(all));
    } catch (JedisException e) {
      return e;
    }
  }

  private List<Object> pipeline(JsonArray list) {
    Pipeline p = a.pipelined();
    for (JsonElement args : list) {
      byte[][] all = values.all(args.getAsJsonArray());
      p.sendCommand(name(all), rest(all));
    }
    return p.syncAndReturnAll();
  }

  private String multi(JsonObject step) {
    try {
      if (step.has("watch")) {
        for (JsonElement key : step.getAsJsonArray("watch")) {
          a.watch(key.getAsString());
        }
      }
      if (step.has("meanwhile")) {
        step.getAsJsonArray("meanwhile").forEach(args -> call(b, args.getAsJsonArray()));
      }
      AbstractTransaction t = new Transaction(a);
      for (JsonElement args : step.getAsJsonArray("multi")) {
        byte[][] all = values.all(args.getAsJsonArray());
        t.sendCommand(name(all), rest(all));
      }
      return Replies.show(t.exec());
    } catch (JedisException e) {
      return Replies.show(e);
    }
  }

  /** Blocks a third connection, and lets the second one end that. */
  private List<Object> block(JsonObject step) throws Exception {
    List<Object> replies = new ArrayList<>();
    try (Jedis c = connect()) {
      CompletableFuture<Object> blocked =
          CompletableFuture.supplyAsync(() -> call(c, step.getAsJsonArray("block")));
      for (int i = 0; i < 2000 && b.info("clients").contains("blocked_clients:0"); i++) {
        Thread.sleep(10);
      }
      step.getAsJsonArray("then").forEach(args -> replies.add(call(b, args.getAsJsonArray())));
      replies.add(blocked.get(60, TimeUnit.SECONDS));
    }
    return replies;
  }

  private List<Object> subscribe(JsonObject step) throws Exception {
    byte[] channel = step.get("subscribe").getAsString().getBytes(StandardCharsets.UTF_8);
    BlockingQueue<List<Object>> events = new ArrayBlockingQueue<>(100);
    BinaryJedisPubSub listener = new BinaryJedisPubSub() {
      @Override
      public void onMessage(byte[] from, byte[] message) {
        events.add(Arrays.asList("message", from, message));
      }

      @Override
      public void onSubscribe(byte[] to, int count) {
        events.add(Arrays.asList("subscribe", to, (long) count));
      }
    };
    List<Object> replies = new ArrayList<>();
    try (Jedis c = connect()) {
      CompletableFuture<Void> done = CompletableFuture.runAsync(() -> c.subscribe(listener, channel));
      replies.add(events.poll(20, TimeUnit.SECONDS));
      for (JsonElement message : step.getAsJsonArray("publish")) {
        replies.add(b.publish(channel, values.make(message)));
        replies.add(events.poll(20, TimeUnit.SECONDS));
      }
      listener.unsubscribe();
      done.get(20, TimeUnit.SECONDS);
    }
    return replies;
  }

  private static ProtocolCommand name(byte[][] command) {
    return () -> command[0];
  }

  private static byte[][] rest(byte[][] command) {
    return Arrays.copyOfRange(command, 1, command.length);
  }
}
