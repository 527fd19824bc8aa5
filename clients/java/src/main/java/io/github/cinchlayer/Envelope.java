package io.github.cinchlayer;

import com.github.luben.zstd.ZstdException;
import io.github.cinchlayer.EnvelopeException.Damaged;
import io.github.cinchlayer.EnvelopeException.DictionaryMissing;
import io.github.cinchlayer.EnvelopeException.TooLarge;
import io.github.cinchlayer.EnvelopeException.UnknownCodec;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.function.IntFunction;
import java.util.zip.CRC32;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Opens and seals envelopes (docs/FORMAT.md, version 1), without a store. */
public final class Envelope {
  /** What is opened at most, and sealed, unless told otherwise. */
  public static final int DEFAULT_MAX_RAW = 32 << 20;

  /** The level of rules that name no level of zstd. */
  public static final int DEFAULT_LEVEL = 3;

  private static final int CHECKSUM_BYTES = 4;
  private static final int NUMBER_BYTES = 4;
  private static final int MAX_WRITTEN_HEADER = 5 + 5 + Header.TAG_BYTES + NUMBER_BYTES;

  /** Whether so many bytes are worth having in place of so many. */
  @FunctionalInterface
  interface Worth {
    boolean of(int raw, int sealed);
  }

  private Envelope() {}

  /** Whether the bytes begin with the magic: then they are an envelope, or damaged. */
  public static boolean isSealed(byte[] stored) {
    return Header.begins(stored);
  }

  /**
   * Returns the value that stored stands for; bytes without the magic come back as they are.
   *
   * @param dictionaries gives a dictionary by its number, or null
   * @throws EnvelopeException if it can't be opened
   */
  public static byte[] open(byte[] stored, IntFunction<Dictionary> dictionaries, int maxRaw) {
    if (!isSealed(stored)) {
      return stored;
    }
    try {
      return opened(stored, dictionaries, maxRaw);
    } catch (EnvelopeException e) {
      throw e.of(stored);
    }
  }

  private static byte[] opened(byte[] stored, IntFunction<Dictionary> dictionaries, int maxRaw) {
    Header h = Header.parse(stored);
    checkLengths(h, stored.length - h.length, maxRaw);
    Dictionary dictionary = h.dictionary == 0 ? null : authentic(h, stored, dictionaries);
    byte[] payload = Arrays.copyOfRange(stored, h.length, stored.length);
    byte[] value = Codec.decode(h.codec, payload, (int) h.rawLength, dictionary);
    if (value.length != h.rawLength) {
      throw new Damaged(value.length + " bytes, " + h.rawLength + " declared");
    }
    if (dictionary == null && crc32(value) != h.checksum) {
      throw new Damaged("checksum does not match");
    }
    return value;
  }

  /** Before anything is allocated. */
  private static void checkLengths(Header h, int payload, int maxRaw) {
    if (h.codec > Codec.LAST) {
      throw new UnknownCodec(h.codec);
    }
    if (h.codec == Codec.RAW && payload != h.rawLength) {
      throw new Damaged(payload + " bytes, " + h.rawLength + " declared");
    }
    if (h.codec != Codec.RAW && h.rawLength > maxRaw) {
      throw new TooLarge(h.rawLength, maxRaw);
    }
    if (h.codec != Codec.RAW && payload == 0) {
      throw new Damaged("no payload");
    }
  }

  /** The dictionary, if the tag is right: who has no dictionary makes no tag, so nothing is decoded before. */
  private static Dictionary authentic(Header h, byte[] stored, IntFunction<Dictionary> dictionaries) {
    Dictionary dictionary = dictionaries.apply(h.dictionary);
    if (dictionary == null || dictionary.number() != h.dictionary) {
      throw new DictionaryMissing(h.dictionary);
    }
    int end = h.tagAt + Header.TAG_BYTES;
    byte[] tag = Arrays.copyOfRange(stored, h.tagAt, end);
    if (!MessageDigest.isEqual(tag, tag(dictionary, stored, h.tagAt, stored.length))) {
      throw new Damaged("tag does not match");
    }
    return dictionary;
  }

  /**
   * Returns what to store for a value: its envelope, by zstd, or the value itself where that is not longer.
   *
   * @param dictionary may be null
   */
  public static byte[] seal(byte[] value, int level, Dictionary dictionary) {
    return seal(value, level, dictionary, (raw, sealed) -> sealed < raw, DEFAULT_MAX_RAW);
  }

  static byte[] seal(byte[] value, int level, Dictionary dictionary, Worth worth, int maxRaw) {
    if (value.length > 0 && value.length <= maxRaw) {
      byte[] sealed = zstd(value, level, dictionary);
      if (sealed != null && worth.of(value.length, sealed.length)) {
        return sealed;
      }
    }
    return escape(value);
  }

  /** The value as it is; in an envelope if it begins with the magic, so that opening gives it back. */
  static byte[] escape(byte[] value) {
    if (!isSealed(value)) {
      return value;
    }
    ByteBuffer out = head(MAX_WRITTEN_HEADER + value.length, Codec.RAW, 0, value.length);
    out.putInt(crc32(value)).put(value);
    return Arrays.copyOf(out.array(), out.position());
  }

  /** Null if zstd fails, as no trouble with sealing keeps a value from being stored. */
  private static byte[] zstd(byte[] value, int level, Dictionary dictionary) {
    ByteBuffer out = head(MAX_WRITTEN_HEADER + Zstd.bound(value.length), Codec.ZSTD, dictionary == null ? 0 : Header.WITH_DICTIONARY, value.length);
    int tagAt = out.position();
    if (dictionary == null) {
      out.putInt(crc32(value));
    } else {
      out.position(tagAt + Header.TAG_BYTES).order(ByteOrder.BIG_ENDIAN).putInt(dictionary.number());
    }
    try {
      int end = out.position() + Zstd.compress(value, out.array(), out.position(), level, dictionary);
      if (dictionary != null) {
        System.arraycopy(tag(dictionary, out.array(), tagAt, end), 0, out.array(), tagAt, Header.TAG_BYTES);
      }
      return Arrays.copyOf(out.array(), end);
    } catch (ZstdException e) {
      return null;
    }
  }

  private static ByteBuffer head(int size, int codec, int flags, int rawLength) {
    ByteBuffer out = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    Header.write(out, codec, flags, rawLength);
    return out;
  }

  private static int crc32(byte[] value) {
    CRC32 crc = new CRC32();
    crc.update(value);
    return (int) crc.getValue();
  }

  /** Over all of the envelope but the tag itself. */
  private static byte[] tag(Dictionary dictionary, byte[] envelope, int tagAt, int end) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(dictionary.tagKey(), "HmacSHA256"));
      mac.update(envelope, 0, tagAt);
      int after = tagAt + Header.TAG_BYTES;
      mac.update(envelope, after, end - after);
      return Arrays.copyOf(mac.doFinal(), Header.TAG_BYTES);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has HmacSHA256", e);
    }
  }
}
