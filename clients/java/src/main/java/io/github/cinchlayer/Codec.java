package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.Damaged;

/** How a payload is compressed: the numbers of the format, and their decoders. */
final class Codec {
  static final int RAW = 0;
  static final int SNAPPY = 1;
  static final int S2 = 2;
  static final int MINLZ = 3;
  static final int LZ4 = 4;
  static final int ZSTD = 5;
  static final int ZLIB = 6;
  static final int GZIP = 7;
  static final int LAST = GZIP;

  private Codec() {}

  /** At most rawLength bytes. What gives more, or not a whole stream, is damaged. */
  static byte[] decode(int codec, byte[] payload, int rawLength, Dictionary dictionary) {
    if (codec == RAW) {
      return payload;
    }
    try {
      return decompress(codec, payload, rawLength, dictionary);
    } catch (IndexOutOfBoundsException e) {
      throw new Damaged("payload is cut off");
    }
  }

  private static byte[] decompress(int codec, byte[] payload, int rawLength, Dictionary dictionary) {
    switch (codec) {
      case SNAPPY:
        return new Block(payload, rawLength).snappy(false);
      case S2:
        return new Block(payload, rawLength).snappy(true);
      case MINLZ:
        return new Block(payload, rawLength).minlz();
      case LZ4:
        return new Block(payload, rawLength).lz4();
      case ZSTD:
        return Zstd.decompress(payload, rawLength, dictionary);
      case ZLIB:
        return Deflate.zlib(payload, rawLength);
      default:
        return Deflate.gzip(payload, rawLength);
    }
  }
}
