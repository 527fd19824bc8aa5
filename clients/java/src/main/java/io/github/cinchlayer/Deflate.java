package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.Damaged;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/** Exactly one stream of zlib (RFC 1950), or one member of gzip (RFC 1952), which java.util.zip's own readers don't insist on. */
final class Deflate {
  private static final int GZIP_MAGIC = 0x1f8b;
  private static final int DEFLATED = 8;
  private static final int HEADER_CRC = 2;
  private static final int EXTRA = 4;
  private static final int NAME = 8;
  private static final int COMMENT = 16;
  private static final int UNKNOWN = 0xe0;

  private Deflate() {}

  static byte[] zlib(byte[] payload, int rawLength) {
    Bytes in = new Bytes(payload, 0);
    byte[] value = inflate(in, rawLength, new Inflater(false));
    mustEnd(in);
    return value;
  }

  static byte[] gzip(byte[] payload, int rawLength) {
    Bytes in = new Bytes(payload, 0);
    skipHeader(in);
    byte[] value = inflate(in, rawLength, new Inflater(true));
    CRC32 crc = new CRC32();
    crc.update(value);
    if (in.little(4) != crc.getValue() || in.little(4) != value.length) {
      throw new Damaged("gzip's own checksum does not match");
    }
    mustEnd(in);
    return value;
  }

  private static void skipHeader(Bytes in) {
    if ((in.next() << 8 | in.next()) != GZIP_MAGIC || in.next() != DEFLATED) {
      throw new Damaged("not gzip");
    }
    int flags = in.next();
    if ((flags & UNKNOWN) != 0) {
      throw new Damaged("unknown gzip flags");
    }
    in.at += 6; // time, level, system
    in.at += (flags & EXTRA) == 0 ? 0 : (int) in.little(2);
    skipText(in, flags & NAME);
    skipText(in, flags & COMMENT);
    in.at += (flags & HEADER_CRC) == 0 ? 0 : 2;
  }

  private static void skipText(Bytes in, int present) {
    while (present != 0 && in.next() != 0) {
      // up to the zero that ends it
    }
  }

  private static void mustEnd(Bytes in) {
    if (!in.ended()) {
      throw new Damaged("payload does not end with the stream");
    }
  }

  /** Inflates from where in is, and leaves it behind the stream. */
  private static byte[] inflate(Bytes in, int rawLength, Inflater inflater) {
    try {
      inflater.setInput(in.in, in.at, in.in.length - in.at);
      byte[] value = fill(inflater, rawLength);
      if (!inflater.finished()) {
        throw new Damaged("payload does not end where the value does");
      }
      in.at = in.in.length - inflater.getRemaining();
      return value;
    } catch (DataFormatException e) {
      throw new Damaged(String.valueOf(e.getMessage()));
    } finally {
      inflater.end();
    }
  }

  private static byte[] fill(Inflater inflater, int rawLength) throws DataFormatException {
    byte[] value = new byte[rawLength];
    int length = 0;
    for (int n = 1; n > 0 && length < rawLength; length += n) {
      n = inflater.inflate(value, length, rawLength - length);
    }
    // The end of the stream may still be to read, and shows with room for a byte.
    if (!inflater.finished() && inflater.inflate(new byte[1]) > 0) {
      throw new Damaged("more bytes than declared");
    }
    return length == rawLength ? value : Arrays.copyOf(value, length);
  }
}
