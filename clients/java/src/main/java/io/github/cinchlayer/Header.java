package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.Damaged;
import java.nio.ByteBuffer;

/**
 * The header of an envelope.
 *
 * <pre>
 *  0    1    2    3         4
 * +----+----+----+---------+-------+----------+----------------+----------------+----------------+- - - - -+
 * | C1 | DD | DC | ver cod | flags | raw len  | CRC-32 LE, or  | dictionary no. | extension      | payload |
 * |              | hi  lo  |       | uvarint  | with a no. tag | big endian     | words          |         |
 * +----+----+----+---------+-------+----------+----------------+----------------+----------------+- - - - -+
 * </pre>
 */
final class Header {
  static final int VERSION = 1;
  static final int TAG_BYTES = 8;
  static final int WITH_DICTIONARY = 0x80;
  private static final int RESERVED = 0x30;
  private static final int FOREIGN = 0x40; // also what is added to the format's number, as a codec that we don't know
  private static final int WORDS = 0x0f;
  private static final byte[] MAGIC = {(byte) 0xc1, (byte) 0xdd, (byte) 0xdc};

  int codec;
  int dictionary; // 0: none
  long rawLength;
  int checksum; // of the value, without a dictionary
  int tagAt; // the tag of header and payload, with one
  int length; // bytes of the header

  private Header() {}

  static boolean begins(byte[] stored) {
    return stored.length >= 3 && stored[0] == MAGIC[0] && stored[1] == MAGIC[1] && stored[2] == MAGIC[2];
  }

  static Header parse(byte[] stored) {
    try {
      return read(stored);
    } catch (IndexOutOfBoundsException e) {
      throw new Damaged("header is cut off");
    }
  }

  private static Header read(byte[] stored) {
    Header h = new Header();
    int version = stored[3] >> 4 & 15;
    if (version != VERSION) {
      throw new Damaged("version " + version);
    }
    h.codec = stored[3] & 15;
    int flags = stored[4];
    if ((flags & RESERVED) != 0) {
      throw new Damaged("a reserved flag is set");
    }
    Bytes in = new Bytes(stored, 5);
    h.rawLength = in.uvarint();
    if ((flags & WITH_DICTIONARY) != 0) {
      h.readDictionary(in);
    } else {
      h.checksum = (int) in.little(4);
    }
    h.length = in.at + 4 * (flags & WORDS);
    if (h.length > stored.length) {
      throw new Damaged("header is cut off");
    }
    if ((flags & FOREIGN) != 0) {
      h.checkForeign(stored, in.at);
    }
    return h;
  }

  /** What is sealed is the content of a value in another library's format, which we can't write: an unknown codec. */
  private void checkForeign(byte[] stored, int at) {
    if (length == at || stored[at] != 1 || stored[at + 1] == 0 || stored[at + 3] != 0) {
      throw new Damaged("no format of the value is named");
    }
    codec = FOREIGN + (stored[at + 1] & 0xff);
  }

  private void readDictionary(Bytes in) {
    tagAt = in.at;
    in.at += TAG_BYTES;
    dictionary = Integer.reverseBytes((int) in.little(4));
    if (dictionary == 0) {
      throw new Damaged("dictionary number is 0");
    }
    if (codec <= Codec.LAST && codec != Codec.ZSTD) {
      throw new Damaged("only zstd takes a dictionary");
    }
  }

  /** Writes what comes before the checksum or the tag. */
  static void write(ByteBuffer to, int codec, int flags, int rawLength) {
    to.put(MAGIC).put((byte) (VERSION << 4 | codec)).put((byte) flags);
    for (; rawLength >= 0x80; rawLength >>>= 7) {
      to.put((byte) (rawLength | 0x80));
    }
    to.put((byte) rawLength);
  }
}
