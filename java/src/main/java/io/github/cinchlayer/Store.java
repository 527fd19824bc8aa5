package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.DictionaryMissing;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** What Redis servers hold beside the values: dictionaries, and what gateways agreed on (docs/FORMAT.md and docs/LIBRARIES.md). */
final class Store {
  private static final String[] LIBRARIES = {"cinch_dict_", "cinch_archive_"};
  private static final String[] KEYS = {"cinch:dict:", "cinch:dict:archive:"};
  private static final String RETIRED = "cinch_retired_";
  private static final String RECORD = "cinch_rule_";
  private static final String RECORD_KEY = "cinch:dict:rule:";
  private static final int VERSION_DIGITS = 16;

  private final Commands commands;

  Store(Commands commands) {
    this.commands = commands;
  }

  private Object ask(String... command) {
    byte[][] parts = new byte[command.length][];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = command[i].getBytes(StandardCharsets.UTF_8);
    }
    return commands.execute(parts);
  }

  /** Looks into all places, in their order. */
  Dictionary dictionary(int number) {
    String name = Dictionary.name(number);
    for (int i = 0; i < LIBRARIES.length; i++) {
      byte[] content = content(LIBRARIES[i] + name, KEYS[i] + name);
      if (content != null && Dictionary.number(content) == number) {
        return new Dictionary(content);
      }
      if (content != null) {
        break;
      }
    }
    throw new DictionaryMissing(number);
  }

  private byte[] content(String library, String key) {
    try {
      byte[] base64 = (byte[]) ask("FCALL_RO", library, "0");
      return base64 == null ? null : Base64.getDecoder().decode(base64);
    } catch (RuntimeException e) {
      mustBeUnknown(e);
      return (byte[]) ask("GET", key);
    }
  }

  /** The policy that gateways have published, with the dictionaries that may be named in new values now. */
  Policy policy(String login) {
    Object libraries;
    try {
      libraries = ask("FUNCTION", "LIST", "LIBRARYNAME", "cinch_*");
    } catch (RuntimeException e) {
      mustBeUnknown(e);
      return policyOfKeys(login);
    }
    Set<String> names = new HashSet<>();
    Map<String, String> newest = new HashMap<>(); // version and text, by record
    for (Object library : (List<?>) libraries) {
      Map<String, Object> fields = fields(library);
      String name = text(fields.get("library_name"));
      names.add(name);
      take(name, fields, newest);
    }
    newest.replaceAll((record, text) -> text.substring(VERSION_DIGITS));
    Policy policy = new Policy(newest, login);
    policy.keep(n -> names.contains(LIBRARIES[0] + Dictionary.name(n)) && !names.contains(RETIRED + Dictionary.name(n)));
    return policy;
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

  private Policy policyOfKeys(String login) {
    Map<String, String> records = new HashMap<>();
    records.put(Policy.RECORD, record(Policy.RECORD));
    for (String name : new Policy(records, login).records()) {
      records.put(name, record(name));
    }
    Policy policy = new Policy(records, login);
    policy.keep(n -> exists(KEYS[0] + Dictionary.name(n)) && !exists(KEYS[0] + "retired:" + Dictionary.name(n)));
    return policy;
  }

  /** Without the version before it. */
  private String record(String name) {
    String text = text(ask("GET", RECORD_KEY + name));
    return text.substring(text.indexOf(' ') + 1);
  }

  private boolean exists(String key) {
    return !ask("EXISTS", key).equals(0L);
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
