package io.github.cinchlayer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.IntPredicate;

/** Which values are sealed, and how: the rules that gateways publish in the store (docs/LIBRARIES.md has their format). */
final class Policy {
  static final String RECORD = "policy";
  private static final int FORMAT = 1;

  private final String login;
  private final boolean off;
  private final List<Rule> rules = new ArrayList<>();
  private final List<Glob> exclude = new ArrayList<>();
  private final Map<String, Integer> current = new HashMap<>(); // dictionaries, by the record's name
  private final Set<Integer> live = new HashSet<>();

  /** One that seals nothing. */
  static Policy none() {
    return new Policy(Map.of(), "");
  }

  /** From records by name. It seals nothing where there is no policy among them, or one of a later format. */
  Policy(Map<String, String> records, String login) {
    this.login = login;
    Json document = Json.parse(records.get(RECORD));
    boolean known = document.number("format") == FORMAT;
    off = !known || document.flag("off");
    if (!known) {
      return;
    }
    document.objects("rules").forEach(rule -> rules.add(new Rule(rule)));
    document.texts("exclude").forEach(glob -> exclude.add(new Glob(glob)));
    for (String name : records()) {
      Json inForce = Json.parse(records.get(name)).object("current");
      if (inForce != null) {
        current.put(name, inForce.dictionary("dict"));
      }
    }
  }

  boolean excludes(byte[] key) {
    return exclude.stream().anyMatch(glob -> glob.matches(key));
  }

  /** The rule by which a value is sealed, or null. */
  Rule sealing(String space, Address a, byte[] value) {
    if (off || neverSealed(value)) {
      return null;
    }
    Rule first = rules.stream().filter(rule -> rule.covers(space, a, value.length)).findFirst().orElse(null);
    return first != null && first.seals ? first : null;
  }

  /** The number of the dictionary in force, 0: none. */
  int dictionary(Rule rule) {
    int number = current.getOrDefault(rule.record(login), rule.dictionary);
    return live.contains(number) ? number : 0;
  }

  /** The names of the records that say which dictionaries are in force. */
  Set<String> records() {
    Set<String> names = new HashSet<>();
    rules.stream().filter(rule -> rule.seals).forEach(rule -> names.add(rule.record(login)));
    names.remove("");
    return names;
  }

  /** The numbers that new values may name, if they are live. */
  private Set<Integer> dictionaries() {
    Set<Integer> all = new HashSet<>(current.values());
    rules.forEach(rule -> all.add(rule.dictionary));
    all.remove(0);
    return all;
  }

  /** Says which of the dictionaries are in the store and not retired. Until then none is. */
  void keep(IntPredicate isLive) {
    dictionaries().stream().filter(isLive::test).forEach(live::add);
  }

  /** The dictionaries in force. */
  Set<Integer> inForce() {
    Set<Integer> numbers = new HashSet<>();
    rules.forEach(rule -> numbers.add(dictionary(rule)));
    numbers.remove(0);
    return numbers;
  }

  /** What the server computes on: a canonical int64, a HyperLogLog. */
  static boolean neverSealed(byte[] value) {
    String text = new String(value, 0, Math.min(value.length, 21), StandardCharsets.ISO_8859_1);
    return text.startsWith("HYLL") || isInteger(text);
  }

  private static boolean isInteger(String text) {
    try {
      return text.length() <= 20 && Long.toString(Long.parseLong(text)).equals(text);
    } catch (NumberFormatException e) {
      return false;
    }
  }
}
