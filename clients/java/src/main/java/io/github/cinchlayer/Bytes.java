package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.Damaged;

/** Reads numbers. What ends too soon is an IndexOutOfBoundsException, for callers to name. */
final class Bytes {
  final byte[] in;
  int at;

  Bytes(byte[] in, int at) {
    this.in = in;
    this.at = at;
  }

  boolean ended() {
    return at >= in.length;
  }

  int next() {
    return in[at++] & 255;
  }

  /** Little endian, of 1 to 4 bytes. */
  long little(int n) {
    long value = 0;
    for (int i = 0; i < n; i++) {
      value |= (long) next() << 8 * i;
    }
    return value;
  }

  /** LEB128 in its shortest form, of at most 5 bytes. */
  long uvarint() {
    long value = 0;
    for (int i = 0; i < 5; i++) {
      int c = next();
      value |= (long) (c & 0x7f) << 7 * i;
      if (c < 0x80) {
        if (i > 0 && c == 0) {
          throw new Damaged("length is not canonical");
        }
        return value;
      }
    }
    throw new Damaged("length is too long");
  }
}
