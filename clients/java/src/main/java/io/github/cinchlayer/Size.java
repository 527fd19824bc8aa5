package io.github.cinchlayer;

/** What a Redis server (7.x, jemalloc, 64 bits) allocates for a value: MEMORY USAGE, less what does not depend on the value. */
final class Size {
  private static final int HASH_LISTPACK_MAX = 64; // hash-max-listpack-value
  private static final int STRING_EMBEDDED_MAX = 44;
  private static final int OBJECT = 16;

  private Size() {}

  /** Whether sealed bytes in place of raw ones save the share minGain. */
  static boolean worth(Kind kind, int raw, int sealed, double minGain) {
    boolean packed = kind == Kind.STREAM || kind == Kind.HASH && Math.max(raw, sealed) <= HASH_LISTPACK_MAX;
    long before = packed ? listpack(raw) : allocated(kind, raw);
    long after = packed ? listpack(sealed) : allocated(kind, sealed);
    return after < before && before - after >= minGain * before;
  }

  private static long allocated(Kind kind, int n) {
    return kind == Kind.HASH ? text(n) : string(n);
  }

  static long string(long n) {
    return n <= STRING_EMBEDDED_MAX ? sizeClass(OBJECT + 3 + n + 1) : sizeClass(OBJECT) + text(n);
  }

  /** A string without an object around it (sds). */
  static long text(long n) {
    int header = n < 1 << 5 ? 1 : n < 1 << 8 ? 3 : n < 1 << 16 ? 5 : 9;
    return sizeClass(header + n + 1);
  }

  static long listpack(long n) {
    long entry = n + (n < 1 << 6 ? 1 : n < 1 << 12 ? 2 : 5);
    long[] ends = {127, (1 << 14) - 2, (1 << 21) - 2, (1 << 28) - 2}; // of entries whose length, kept behind them, takes 1, 2, 3, 4 bytes
    int width = 1;
    while (width <= ends.length && entry > ends[width - 1]) {
      width++;
    }
    return entry + width;
  }

  /** jemalloc's size class: multiples of 16 up to 128, then four steps a doubling. */
  private static long sizeClass(long n) {
    if (n <= 8) {
      return 8;
    }
    if (n <= 128) {
      return n + 15 & ~15L;
    }
    long step = Long.highestOneBit(n - 1) >> 2;
    return n + step - 1 & -step;
  }
}
