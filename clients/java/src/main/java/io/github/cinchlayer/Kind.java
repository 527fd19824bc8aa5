package io.github.cinchlayer;

import java.util.Locale;

/** Where in the server a value is. */
enum Kind {
  STRING,
  HASH,
  STREAM;

  /** As rules have it. */
  final String text = name().toLowerCase(Locale.ROOT);
}
