package io.github.cinchlayer;

import com.github.luben.zstd.ZstdCompressCtx;
import com.github.luben.zstd.ZstdDecompressCtx;
import com.github.luben.zstd.ZstdException;
import io.github.cinchlayer.EnvelopeException.Damaged;
import java.util.Arrays;

/** One zstd frame without magic number, dictionary identifier and checksum, as the format has it. */
final class Zstd {
  private static final int[] IDENTIFIER_BYTES = {0, 1, 2, 4};
  private static final int[] SIZE_BYTES = {0, 2, 4, 8};
  private static final int RLE = 1;

  private static final Pool<ZstdCompressCtx> WRITERS = new Pool<>(ZstdCompressCtx::new);
  private static final Pool<ZstdDecompressCtx> READERS = new Pool<>(ZstdDecompressCtx::new);

  private Zstd() {}

  static int bound(int length) {
    return (int) com.github.luben.zstd.Zstd.compressBound(length);
  }

  /** Compresses into out from at, and returns how many bytes it took. */
  static int compress(byte[] value, byte[] out, int at, int level, Dictionary dictionary) {
    return WRITERS.with(
        c -> {
          c.reset();
          c.setMagicless(true).setDictID(false).setChecksum(false).setContentSize(true).setLevel(level);
          if (dictionary != null) {
            c.loadDict(dictionary.writer(level));
          }
          return c.compressByteArray(out, at, out.length - at, value, 0, value.length);
        });
  }

  /** In one call without streams, so no window is allocated, whatever the frame says of its size. */
  static byte[] decompress(byte[] payload, int rawLength, Dictionary dictionary) {
    if (frameLength(payload) != payload.length) {
      throw new Damaged("payload is not one frame");
    }
    byte[] value = new byte[rawLength];
    try {
      int length = READERS.with(d -> decompress(d, payload, value, dictionary));
      return length == rawLength ? value : Arrays.copyOf(value, length);
    } catch (ZstdException e) {
      throw new Damaged(String.valueOf(e.getMessage()));
    }
  }

  private static int decompress(ZstdDecompressCtx d, byte[] payload, byte[] value, Dictionary dictionary) {
    d.reset();
    d.setMagicless(true);
    if (dictionary != null) {
      d.loadDict(dictionary.reader());
    }
    return d.decompressByteArray(value, 0, value.length, payload, 0, payload.length);
  }

  /** How long the first frame is: libzstd would go on to a second. */
  private static long frameLength(byte[] payload) {
    Bytes in = new Bytes(payload, 0);
    int descriptor = in.next();
    boolean single = (descriptor & 0x20) != 0;
    int sizeBytes = descriptor >> 6 == 0 && single ? 1 : SIZE_BYTES[descriptor >> 6];
    in.at += (single ? 0 : 1) + IDENTIFIER_BYTES[descriptor & 3] + sizeBytes;
    long block;
    do {
      block = in.little(3);
      in.at += (block >> 1 & 3) == RLE ? 1 : (int) (block >> 3);
    } while ((block & 1) == 0);
    return in.at + ((descriptor & 4) == 0 ? 0 : 4);
  }
}
