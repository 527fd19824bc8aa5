package io.github.cinchlayer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cinchlayer.EnvelopeException.Damaged;
import io.github.cinchlayer.EnvelopeException.DictionaryMissing;
import io.github.cinchlayer.EnvelopeException.TooLarge;
import io.github.cinchlayer.EnvelopeException.UnknownCodec;
import io.github.cinchlayer.Vectors.Vector;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;

class EnvelopeTest {
  private static final byte[] MAGIC = {(byte) 0xc1, (byte) 0xdd, (byte) 0xdc};

  private static Class<? extends EnvelopeException> kind(String error) {
    switch (error) {
      case "unknown codec":
        return UnknownCodec.class;
      case "dictionary missing":
        return DictionaryMissing.class;
      case "too large":
        return TooLarge.class;
      default:
        return Damaged.class;
    }
  }

  @Test
  void opensEveryVector() {
    List<Vector> vectors = Vectors.all();
    assertTrue(vectors.size() > 100);
    for (Vector v : vectors) {
      boolean knownSince = "unknown codec".equals(v.error) && (v.stored[3] & 15) <= Codec.LAST;
      if (v.error == null) {
        assertArrayEquals(v.value, v.open(v.stored), v.name);
      } else if (!knownSince) {
        EnvelopeException e = assertThrows(kind(v.error), () -> v.open(v.stored), v.name);
        assertSame(v.stored, e.stored(), v.name);
      }
    }
  }

  @Test
  void nothingForgedIsDecoded() {
    Vectors.all().stream()
        .filter(v -> "tag".equals(v.error))
        .forEach(v -> assertEquals("damaged envelope: tag does not match", assertThrows(Damaged.class, () -> v.open(v.stored)).getMessage()));
  }

  /** The value, or null where it is refused. Any other exception fails. */
  private static byte[] openOrRefuse(Vector v, byte[] stored) {
    try {
      return v.open(stored);
    } catch (EnvelopeException e) {
      return null;
    }
  }

  private static void flipped(Vector v, int bit) {
    byte[] damaged = v.stored.clone();
    damaged[bit / 8] ^= 1 << bit % 8;
    byte[] opened = openOrRefuse(v, damaged);
    if (v.dictionary != null) {
      assertNull(opened, v.name + ", bit " + bit + ": under a tag all damage is found");
    } else if (opened != null) {
      assertArrayEquals(v.value, opened, v.name + ", bit " + bit);
    }
  }

  @Test
  void aFlippedBitGivesAnErrorOrTheValue() {
    for (Vector v : Vectors.all()) {
      if (v.error == null && v.name.endsWith("-order.json")) {
        for (int bit = 24; bit < 8 * v.stored.length; bit++) {
          flipped(v, bit);
        }
      }
    }
  }

  @Test
  void whatIsCutOffIsRefused() {
    for (Vector v : Vectors.all()) {
      if (v.error == null && Envelope.isSealed(v.stored) && v.stored.length < 2000) {
        for (int length = 3; length < v.stored.length; length++) {
          byte[] cut = Arrays.copyOf(v.stored, length);
          assertThrows(EnvelopeException.class, () -> v.open(cut), v.name + ", cut to " + length);
        }
      }
    }
  }

  /** An envelope without a dictionary, whose checksum is of no bytes. */
  private static byte[] envelope(int codec, int rawLength, byte... payload) {
    ByteBuffer out = ByteBuffer.allocate(20 + payload.length);
    Header.write(out, codec, 0, rawLength);
    out.putInt(0).put(payload);
    return Arrays.copyOf(out.array(), out.position());
  }

  @Test
  void anyPayloadIsAnErrorOfOurs() {
    Random random = new Random(1);
    for (int i = 0; i < 100_000; i++) {
      byte[] payload = new byte[random.nextInt(40)];
      random.nextBytes(payload);
      int rawLength = random.nextInt(50);
      if (payload.length > 0) {
        payload[0] = (byte) (i % 3 == 0 ? rawLength : i % 3 == 1 ? 0 : payload[0]);
      }
      byte[] stored = envelope(i % 8, rawLength, payload);
      try {
        assertEquals(rawLength, Envelope.open(stored, n -> null, 1000).length);
      } catch (EnvelopeException e) {
        assertTrue(e.getMessage().length() > 0);
      }
    }
  }

  private interface Wrap {
    OutputStream of(OutputStream out) throws IOException;
  }

  private static byte[] zeros(Wrap wrap) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (OutputStream out = wrap.of(bytes)) {
      for (int i = 0; i < 100; i++) {
        out.write(new byte[1 << 20]);
      }
    }
    return bytes.toByteArray();
  }

  @Test
  void bombs() throws IOException {
    byte[] zlib = zeros(DeflaterOutputStream::new);
    byte[] gzip = zeros(GZIPOutputStream::new);
    byte[] zstd = Envelope.seal(new byte[30 << 20], 3, null);
    byte[] frame = Arrays.copyOfRange(zstd, Header.parse(zstd).length, zstd.length);
    byte[] lz4 = new byte[10_000];
    Arrays.fill(lz4, (byte) 255);
    for (byte[] stored : List.of(envelope(Codec.ZLIB, 1000, zlib), envelope(Codec.GZIP, 1000, gzip), envelope(Codec.ZSTD, 1000, frame), envelope(Codec.LZ4, 1000, lz4))) {
      assertThrows(Damaged.class, () -> Envelope.open(stored, n -> null, Envelope.DEFAULT_MAX_RAW));
    }
    for (int codec = Codec.SNAPPY; codec <= Codec.LAST; codec++) {
      byte[] stored = envelope(codec, Integer.MAX_VALUE, (byte) 1);
      assertThrows(TooLarge.class, () -> Envelope.open(stored, n -> null, Envelope.DEFAULT_MAX_RAW));
    }
  }

  @Test
  void whatIsSealedOpens() {
    byte[] text = Vectors.read("values/orders");
    for (String name : new String[] {null, "dictionaries/raw.dict", "dictionaries/trained.dict"}) {
      Dictionary dictionary = name == null ? null : new Dictionary(Vectors.read(name));
      for (int length : new int[] {0, 1, 127, 128, 129, text.length}) {
        byte[] value = Arrays.copyOf(text, length);
        byte[] stored = Envelope.seal(value, 3, dictionary);
        assertTrue(stored.length <= value.length);
        assertArrayEquals(value, Envelope.open(stored, Vectors.only(dictionary), length));
      }
    }
  }

  @Test
  void aDictionaryIsNamedAndNeeded() {
    Dictionary dictionary = new Dictionary(Vectors.read("dictionaries/trained.dict"));
    byte[] stored = Envelope.seal(Vectors.read("values/order.json"), 3, dictionary);
    assertEquals(dictionary.number(), Header.parse(stored).dictionary);
    assertThrows(DictionaryMissing.class, () -> Envelope.open(stored, n -> null, 1000));
    Dictionary other = new Dictionary(Vectors.read("dictionaries/raw.dict"));
    assertThrows(DictionaryMissing.class, () -> Envelope.open(stored, n -> other, 1000));
  }

  @Test
  void whatLooksSealedIsEscaped() {
    byte[] envelope = Envelope.seal(new byte[1000], 3, null);
    for (byte[] value : List.of(MAGIC, Arrays.copyOf(MAGIC, 40), envelope)) {
      for (byte[] stored : List.of(Envelope.seal(value, 3, null), Envelope.escape(value))) {
        assertTrue(Envelope.isSealed(stored));
        assertArrayEquals(value, Envelope.open(stored, n -> null, 1000));
      }
    }
  }
}
