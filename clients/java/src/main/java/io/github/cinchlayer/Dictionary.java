package io.github.cinchlayer;

import com.github.luben.zstd.ZstdDictCompress;
import com.github.luben.zstd.ZstdDictDecompress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Immutable bytes with a number (docs/FORMAT.md, section 5), prepared for zstd once. Any number of threads may use one. */
public final class Dictionary {
  static final int MIN_BYTES = 16;
  static final int MAX_BYTES = 512 << 10;
  private static final byte[] TAG_LABEL = "cinch tag v1".getBytes(StandardCharsets.US_ASCII);

  private final byte[] content;
  private final int number;
  private final byte[] tagKey;
  private final Map<Integer, ZstdDictCompress> writers = new ConcurrentHashMap<>();
  private ZstdDictDecompress reader;

  public Dictionary(byte[] content) {
    if (content.length < MIN_BYTES || content.length > MAX_BYTES) {
      throw new IllegalArgumentException("a dictionary has " + MIN_BYTES + " to " + MAX_BYTES + " bytes, this has " + content.length);
    }
    this.content = content.clone();
    number = number(content);
    tagKey = sha256(TAG_LABEL, content);
  }

  /** The number: the first 4 bytes of the content's SHA-256. */
  public int number() {
    return number;
  }

  static int number(byte[] content) {
    return ByteBuffer.wrap(sha256(content)).getInt();
  }

  /** A number as it stands in names. */
  static String name(int number) {
    return String.format("%08x", number);
  }

  byte[] tagKey() {
    return tagKey;
  }

  ZstdDictCompress writer(int level) {
    return writers.computeIfAbsent(level, l -> new ZstdDictCompress(content, l));
  }

  synchronized ZstdDictDecompress reader() {
    if (reader == null) {
      reader = new ZstdDictDecompress(content);
    }
    return reader;
  }

  static byte[] sha256(byte[]... parts) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (byte[] part : parts) {
        digest.update(part);
      }
      return digest.digest();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
