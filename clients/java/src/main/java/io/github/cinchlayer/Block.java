package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.Damaged;
import java.util.Arrays;

/**
 * Decoders of the block formats that Java has no small library for: snappy, s2, minlz and lz4. They read what a gateway was told to
 * seal with such a codec; what is written here is zstd. A block ends with an IndexOutOfBoundsException where it is cut off.
 */
final class Block {
  private static final int MINLZ_MAX = 8 << 20;

  private final Bytes in;
  private final int limit;
  private byte[] out;
  private int length;
  int pieces; // copied so far, which tests bound

  Block(byte[] payload, int limit) {
    in = new Bytes(payload, 0);
    this.limit = limit;
  }

  private byte[] decoded() {
    return length == out.length ? out : Arrays.copyOf(out, length);
  }

  private void literals(long n) {
    if (n > in.in.length - in.at || n > limit - length) {
      throw new Damaged("literals leave the block");
    }
    System.arraycopy(in.in, in.at, out, length, (int) n);
    pieces++;
    in.at += (int) n;
    length += (int) n;
  }

  /** Appends n bytes from offset bytes back; the two may overlap. */
  private void copy(long offset, long n) {
    if (offset <= 0 || offset > length || n > limit - length) {
      throw new Damaged("copy leaves the block");
    }
    int from = length - (int) offset;
    int end = length + (int) n;
    while (length < end) {
      int piece = Math.min(end - length, length - from); // twice as long each time where the two overlap
      System.arraycopy(out, from, out, length, piece);
      length += piece;
      pieces++;
    }
  }

  byte[] lz4() {
    out = new byte[limit];
    while (!in.ended()) {
      int token = in.next();
      literals(lz4Length(token >> 4));
      if (in.ended()) {
        break; // the last sequence is literals only
      }
      long offset = in.little(2);
      copy(offset, lz4Length(token & 15) + 4);
    }
    return decoded();
  }

  private long lz4Length(long n) {
    if (n == 15) {
      int c;
      do {
        c = in.next();
        n += c;
      } while (c == 255);
    }
    return n;
  }

  /** Repeats are what S2 adds. */
  byte[] snappy(boolean repeats) {
    declared(in.uvarint());
    long offset = 0;
    while (!in.ended()) {
      int tag = in.next();
      int n = tag >> 2;
      switch (tag & 3) {
        case 0:
          literals(1 + (n < 60 ? n : in.little(n - 59)));
          break;
        case 1:
          int low = (tag >> 5) << 8 | in.next();
          boolean again = low == 0 && repeats;
          offset = again ? offset : low;
          copy(offset, again ? repeated(n & 7) : 4 + (n & 7));
          break;
        default:
          offset = in.little((tag & 3) == 2 ? 2 : 4);
          copy(offset, 1 + n);
      }
    }
    return decoded();
  }

  private long repeated(int n) {
    switch (n) {
      case 5:
        return 8 + in.little(1);
      case 6:
        return 260 + in.little(2);
      case 7:
        return 65540 + in.little(3);
      default:
        return 4 + n;
    }
  }

  private void declared(long n) {
    if (n != limit) {
      throw new Damaged("lengths differ");
    }
    out = new byte[limit];
  }

  /** Implements the block format of the MinLZ specification v1.0. */
  byte[] minlz() {
    if (in.next() != 0) {
      throw new Damaged("not a MinLZ block");
    }
    if (in.ended()) {
      return new byte[0];
    }
    long n = in.uvarint();
    if (n == 0) {
      return Arrays.copyOfRange(in.in, in.at, in.in.length);
    }
    if (n > MINLZ_MAX) {
      throw new Damaged("longer than a MinLZ block may be");
    }
    declared(n);
    long offset = 1;
    while (!in.ended()) {
      offset = minlzTag(in.next(), offset);
    }
    return decoded();
  }

  /** Carries out one tag, and returns the offset that a repeat after it means. */
  private long minlzTag(int tag, long offset) {
    switch (tag & 3) {
      case 0:
        int length = tag >> 3;
        long n = minlzLength(length, 28, 30) + (length < 29 ? 1 : 0);
        if ((tag & 4) == 0) {
          literals(n);
        } else {
          copy(offset, n);
        }
        return offset;
      case 1:
        return minlzShort(tag);
      case 2:
        offset = 64 + in.little(2);
        copy(offset, minlzCopied(tag >> 2));
        return offset;
      default:
        return (tag & 4) == 0 ? minlzFused(tag) : minlzFar(tag);
    }
  }

  private long minlzShort(int tag) {
    long offset = 1 + (tag >> 6 | in.next() << 2);
    long n = 4 + (tag >> 2 & 15);
    copy(offset, n == 19 ? 18 + in.next() : n);
    return offset;
  }

  private long minlzFused(int tag) {
    long offset = 64 + in.little(2);
    literals(1 + (tag >> 3 & 3));
    copy(offset, 4 + (tag >> 5));
    return offset;
  }

  private long minlzFar(int tag) {
    long word = tag | in.little(3) << 8;
    long offset = 65536 + (word >> 11);
    long n = minlzCopied((int) (word >> 5 & 63));
    literals(word >> 3 & 3);
    copy(offset, n);
    return offset;
  }

  private long minlzCopied(int n) {
    return minlzLength(n, 60, 64) + (n <= 60 ? 4 : 0);
  }

  /** Values up to last stand for themselves, the next three for base plus 1, 2 or 3 more bytes. */
  private long minlzLength(int value, int last, int base) {
    return value <= last ? value : base + in.little(value - last);
  }
}
