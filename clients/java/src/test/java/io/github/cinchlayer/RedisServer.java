package io.github.cinchlayer;

import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Assumptions;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** A Redis server of the machine, on a port of its own. */
final class RedisServer implements AutoCloseable {
  private static final String RECORD =
      "#!lua name=%1$s\nredis.register_function{function_name = '%1$s', description = %2$s, flags = {'no-writes'}, callback = function() return %3$s end}\n";

  final int port = freePort();
  /** Sees what is stored. */
  final UnifiedJedis plain = new UnifiedJedis(new HostAndPort("127.0.0.1", port));

  private final Process process;

  RedisServer(String... arguments) {
    needed("redis-server", "--version");
    try {
      String directory = Files.createTempDirectory("cinch-redis").toString();
      List<String> command = new ArrayList<>(List.of("redis-server"));
      command.addAll(List.of(arguments));
      command.addAll(List.of("--port", Integer.toString(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory));
      process = quiet(command.toArray(new String[0])).start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    answers(process, plain);
  }

  /** One below those that the system gives to clients, with the one for a cluster's bus, which is 10000 higher. */
  static int freePort() {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(11000, 20000);
      try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress());
          ServerSocket bus = new ServerSocket(port + 10000, 1, InetAddress.getLoopbackAddress())) {
        return port;
      } catch (BindException e) {
        continue; // somebody has it
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  static ProcessBuilder quiet(String... command) {
    return new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD);
  }

  /** A machine without the program skips the test, but not CI. */
  static void needed(String... command) {
    try {
      quiet(command).start().waitFor();
    } catch (IOException e) {
      Assertions.assertNull(System.getenv("CI"), command[0] + " is missing: scripts/servers install");
      Assumptions.abort(command[0] + " is not installed: scripts/servers install");
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Waits until a process answers. */
  static void answers(Process process, UnifiedJedis client) {
    while (true) {
      try {
        client.ping();
        return;
      } catch (JedisConnectionException e) {
        Assertions.assertTrue(process.isAlive(), "the server has ended");
        Thread.onSpinWait();
      }
    }
  }

  /** Sends a command that Jedis has no method for, to this server alone. */
  Object command(String... words) {
    ProtocolCommand name = () -> words[0].getBytes(StandardCharsets.UTF_8);
    return plain.sendCommand(name, Arrays.copyOfRange(words, 1, words.length));
  }

  /** Waits for what servers do by themselves; an error that clients are told meanwhile is no end of it. */
  static void until(BooleanSupplier condition) {
    RuntimeException last = null;
    for (long end = System.nanoTime() + Duration.ofMinutes(2).toNanos(); System.nanoTime() < end; ) {
      try {
        if (condition.getAsBoolean()) {
          return;
        }
        Thread.sleep(20);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      } catch (RuntimeException e) {
        last = e;
      }
    }
    throw new AssertionError("it never came true", last);
  }

  byte[] stored(String key) {
    return plain.get(key.getBytes(StandardCharsets.UTF_8));
  }

  /** Stores a dictionary as gateways do. */
  Dictionary hold(byte[] content) {
    Dictionary dictionary = new Dictionary(content);
    String frame = Base64.getEncoder().encodeToString(com.github.luben.zstd.Zstd.compress(content));
    String name = "cinch_dict_" + Dictionary.name(dictionary.number());
    plain.functionLoadReplace(String.format(RECORD, name, "''", "0") + "-- zstd " + content.length + " " + frame + "\n");
    return dictionary;
  }

  /** Publishes a record as gateways do. */
  void publish(String name, int version, String json) {
    String text = JsonParser.parseString(json).toString();
    load(String.format("cinch_rule_%s_%016x", name, version), "[==[" + text + "]==]", "0");
  }

  void load(String name, String text, String answer) {
    plain.functionLoadReplace(String.format(RECORD, name, text, answer));
  }

  @Override
  public void close() {
    plain.close();
    process.destroyForcibly().onExit().join();
  }

  /** The program of the gateway, built anew. */
  static Path gateway() throws IOException, InterruptedException {
    needed("go", "version");
    Path program = Path.of("target", "cinch").toAbsolutePath();
    List<String> build = List.of("go", "build", "-o", program.toString(), "./cmd/cinch");
    int status = new ProcessBuilder(build).directory(Path.of("..", "..").toFile()).inheritIO().start().waitFor();
    Assertions.assertEquals(0, status, "go build");
    return program;
  }
}
