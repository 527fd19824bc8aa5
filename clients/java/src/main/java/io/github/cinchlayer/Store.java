package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.Damaged;
import io.github.cinchlayer.EnvelopeException.DictionaryMissing;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What Redis servers hold beside the values: dictionaries, and what gateways agreed on (docs/FORMAT.md and docs/LIBRARIES.md). */
final class Store {
  private static final String[] LIBRARIES = {"cinch_dict_", "cinch_archive_"};
  private static final String[] KEYS = {"cinch:dict:", "cinch:dict:archive:"};
  private static final String RETIRED = "cinch_retired_";
  private static final String RECORD = "cinch_rule_";
  private static final String RECORD_KEY = "cinch:dict:rule:";
  private static final int VERSION_DIGITS = 16;
  private static final Pattern COMPRESSED = Pattern.compile("\n-- zstd ([0-9]{1,6}) (\\S+)\n");
  private static final Pattern PLAIN = Pattern.compile("return '([^']*)'");
  private static final int MAGIC_BYTES = 4; // of a frame of zstd

  private final Commands commands;

  Store(Commands commands) {
    this.commands = commands;
  }

  private static Object ask(Commands server, String... command) {
    byte[][] parts = new byte[command.length][];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = command[i].getBytes(StandardCharsets.UTF_8);
    }
    return server.execute(parts);
  }

  /** From the first server that has it. None has it only if each says so. */
  Dictionary dictionary(int number) {
    RuntimeException missing = new DictionaryMissing(number);
    for (Commands server : commands.servers()) {
      try {
        return dictionary(server, number);
      } catch (DictionaryMissing e) {
        continue;
      } catch (RuntimeException e) {
        missing = e;
      }
    }
    throw missing;
  }

  /** Looks into all places, in their order. */
  private static Dictionary dictionary(Commands server, int number) {
    String name = Dictionary.name(number);
    Map<String, String> sources = sources(server, "cinch_*_" + name);
    for (int i = 0; i < LIBRARIES.length; i++) {
      String source = sources.get(LIBRARIES[i] + name);
      byte[] content = source == null ? keyHere(server, KEYS[i] + name) : content(source);
      if (content != null && Dictionary.number(content) == number) {
        return new Dictionary(content);
      }
      if (content != null) {
        break;
      }
    }
    throw new DictionaryMissing(number);
  }

  /** The sources of libraries, by name; none where the server has no functions. */
  private static Map<String, String> sources(Commands server, String pattern) {
    Map<String, String> sources = new HashMap<>();
    try {
      for (Object library : (List<?>) ask(server, "FUNCTION", "LIST", "LIBRARYNAME", pattern, "WITHCODE")) {
        Map<String, Object> fields = fields(library);
        sources.put(text(fields.get("library_name")), text(fields.get("library_code")));
      }
    } catch (RuntimeException e) {
      mustBeUnknown(e);
    }
    return sources;
  }

  /**
   * The content in a library's source: compressed in a comment or, from 0.1.0, plain in the text that the function returns. Empty
   * where there is none.
   */
  private static byte[] content(String source) {
    try {
      Matcher compressed = COMPRESSED.matcher(source);
      if (compressed.find()) {
        byte[] frame = Base64.getDecoder().decode(compressed.group(2));
        int size = Math.min(Integer.parseInt(compressed.group(1)), Dictionary.MAX_BYTES);
        return Zstd.decompress(Arrays.copyOfRange(frame, MAGIC_BYTES, Math.max(frame.length, MAGIC_BYTES)), size, null);
      }
      Matcher plain = PLAIN.matcher(source);
      return plain.find() ? Base64.getDecoder().decode(plain.group(1)) : new byte[0];
    } catch (Damaged | IllegalArgumentException | IndexOutOfBoundsException e) {
      return new byte[0];
    }
  }

  /** Null also where another node of a cluster has the key's slot: that one is asked too. */
  private static byte[] keyHere(Commands server, String key) {
    try {
      return (byte[]) ask(server, "GET", key);
    } catch (RuntimeException e) {
      if (String.valueOf(e.getMessage()).startsWith("MOVED ")) {
        return null;
      }
      throw e;
    }
  }

  /** The policy that gateways have published, with the dictionaries that may be named in new values now: those that all servers have. */
  Policy policy(String login) {
    List<Commands> servers = commands.servers();
    List<Set<String>> names = new ArrayList<>(); // of the libraries in each
    Map<String, String> newest = new HashMap<>(); // version and text, by record
    for (Commands server : servers) {
      Set<String> here = libraries(server, newest);
      if (here == null && servers.size() > 1) {
        throw new IllegalStateException("a cluster of servers without functions (Redis 6) is not supported: use a Cinch gateway");
      }
      if (here == null) {
        return policyOfKeys(server, login);
      }
      names.add(here);
    }
    newest.replaceAll((record, text) -> text.substring(VERSION_DIGITS));
    Policy policy = new Policy(newest, login);
    policy.keep(n -> !names.isEmpty() && names.stream().allMatch(here -> isLive(here, n)));
    return policy;
  }

  private static boolean isLive(Set<String> names, int number) {
    String name = Dictionary.name(number);
    return names.contains(LIBRARIES[0] + name) && !names.contains(RETIRED + name);
  }

  /** The names of a server's libraries, whose records it takes; null where it has no functions. */
  private static Set<String> libraries(Commands server, Map<String, String> newest) {
    Object libraries;
    try {
      libraries = ask(server, "FUNCTION", "LIST", "LIBRARYNAME", "cinch_*");
    } catch (RuntimeException e) {
      mustBeUnknown(e);
      return null;
    }
    Set<String> names = new HashSet<>();
    for (Object library : (List<?>) libraries) {
      Map<String, Object> fields = fields(library);
      String name = text(fields.get("library_name"));
      names.add(name);
      take(name, fields, newest);
    }
    return names;
  }

  /** Takes a record's text if no later version of it was there. Versions have so many digits, so their texts compare as they do. */
  private static void take(String name, Map<String, Object> fields, Map<String, String> newest) {
    int end = name.length() - VERSION_DIGITS - 1;
    if (!name.startsWith(RECORD) || end <= RECORD.length() || name.charAt(end) != '_') {
      return;
    }
    Object function = ((List<?>) fields.get("functions")).get(0);
    String text = name.substring(end + 1) + text(fields(function).get("description"));
    newest.merge(name.substring(RECORD.length(), end), text, (a, b) -> version(a).compareTo(version(b)) > 0 ? a : b);
  }

  private static String version(String text) {
    return text.substring(0, VERSION_DIGITS);
  }

  private static Policy policyOfKeys(Commands server, String login) {
    Map<String, String> records = new HashMap<>();
    records.put(Policy.RECORD, record(server, Policy.RECORD));
    for (String name : new Policy(records, login).records()) {
      records.put(name, record(server, name));
    }
    Policy policy = new Policy(records, login);
    policy.keep(n -> exists(server, KEYS[0] + Dictionary.name(n)) && !exists(server, KEYS[0] + "retired:" + Dictionary.name(n)));
    return policy;
  }

  /** Without the version before it. */
  private static String record(Commands server, String name) {
    String text = text(ask(server, "GET", RECORD_KEY + name));
    return text.substring(text.indexOf(' ') + 1);
  }

  private static boolean exists(Commands server, String key) {
    return !ask(server, "EXISTS", key).equals(0L);
  }

  /** A map of RESP3, or what RESP2 has for it: a list of names and values. Some clients make it a list of pairs. */
  private static Map<String, Object> fields(Object answer) {
    Map<String, Object> fields = new HashMap<>();
    Iterable<?> all = answer instanceof Map ? ((Map<?, ?>) answer).entrySet() : (List<?>) answer;
    for (Iterator<?> i = all.iterator(); i.hasNext(); ) {
      Object name = i.next();
      if (name instanceof Map.Entry) {
        fields.put(text(((Map.Entry<?, ?>) name).getKey()), ((Map.Entry<?, ?>) name).getValue());
      } else {
        fields.put(text(name), i.next());
      }
    }
    return fields;
  }

  private static String text(Object answer) {
    return answer == null ? "" : new String((byte[]) answer, StandardCharsets.UTF_8);
  }

  /** Lets pass what servers without functions, or without this one, say. After any other error nobody knows. */
  private static void mustBeUnknown(RuntimeException error) {
    String text = String.valueOf(error.getMessage()).toLowerCase(Locale.ROOT);
    if (!text.contains("function not found") && !text.contains("unknown command") && !text.contains("unknown subcommand")) {
      throw error;
    }
  }
}
