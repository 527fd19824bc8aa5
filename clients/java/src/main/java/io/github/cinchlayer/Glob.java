package io.github.cinchlayer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/** Redis's globs on bytes. Every pattern means something, as in Redis: a class that is not closed runs to the end. */
final class Glob {
  private static final BitSet STAR = null;

  private final List<BitSet> parts = new ArrayList<>(); // the bytes that may stand there, or a star
  private final byte[] pattern;
  private int at;

  Glob(String text) {
    pattern = text.getBytes(StandardCharsets.UTF_8);
    while (at < pattern.length) {
      parts.add(part());
    }
  }

  private int next() {
    return pattern[at++] & 255;
  }

  private boolean ahead(int n) {
    return at + n < pattern.length;
  }

  private BitSet part() {
    int c = next();
    switch (c) {
      case '*':
        return STAR;
      case '?':
        return range(0, 255);
      case '[':
        return members();
      case '\\':
        return ahead(0) ? one(next()) : one(c);
      default:
        return one(c);
    }
  }

  private BitSet members() {
    boolean negated = ahead(0) && pattern[at] == '^';
    at += negated ? 1 : 0;
    BitSet members = new BitSet(256);
    while (at < pattern.length) {
      int c = next();
      if (c == ']') {
        break;
      }
      members.or(member(c));
    }
    if (negated) {
      members.flip(0, 256);
    }
    return members;
  }

  private BitSet member(int c) {
    if (c == '\\' && ahead(0)) {
      return one(next());
    }
    if (ahead(1) && pattern[at] == '-') {
      at++;
      return range(c, next());
    }
    return one(c);
  }

  private static BitSet one(int c) {
    return range(c, c);
  }

  private static BitSet range(int a, int b) {
    BitSet set = new BitSet(256);
    set.set(Math.min(a, b), Math.max(a, b) + 1);
    return set;
  }

  /** Goes back to the last star only, so no pattern takes long. */
  boolean matches(byte[] text) {
    int part = 0;
    int star = -1; // the last star, and how far it reaches
    int reach = 0;
    int i = 0;
    while (i < text.length) {
      if (part < parts.size() && parts.get(part) == STAR) {
        star = part++;
        reach = i;
      } else if (part < parts.size() && parts.get(part).get(text[i] & 255)) {
        part++;
        i++;
      } else if (star >= 0) {
        part = star + 1;
        i = ++reach;
      } else {
        return false;
      }
    }
    return parts.subList(part, parts.size()).stream().allMatch(p -> p == STAR);
  }
}
