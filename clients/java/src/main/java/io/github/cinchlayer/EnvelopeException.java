package io.github.cinchlayer;

/** Something that begins with the magic could not be opened. There is a class for each thing that a caller decides on. */
public abstract class EnvelopeException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private transient byte[] stored;

  EnvelopeException(String message) {
    super(message);
  }

  EnvelopeException(String message, Throwable cause) {
    super(message, cause);
  }

  /** What could not be opened, as a command such as GETDEL gives it only once. May be null. */
  public byte[] stored() {
    return stored;
  }

  EnvelopeException of(byte[] stored) {
    this.stored = stored;
    return this;
  }

  /** No version of Cinch wrote these bytes, or one far newer. */
  public static final class Damaged extends EnvelopeException {
    private static final long serialVersionUID = 1;

    Damaged(String what) {
      super("damaged envelope: " + what);
    }
  }

  /** Sealed by a newer version, with a codec that this reader lacks. */
  public static final class UnknownCodec extends EnvelopeException {
    private static final long serialVersionUID = 1;

    UnknownCodec(int codec) {
      super("unknown codec " + codec + ": a newer version of this library may know it");
    }
  }

  /** The envelope names a dictionary that nobody has. */
  public static final class DictionaryMissing extends EnvelopeException {
    private static final long serialVersionUID = 1;

    DictionaryMissing(int number) {
      super("dictionary " + Dictionary.name(number) + " is missing: it was not in the store that was asked");
    }
  }

  /** The store did not answer when it was asked for a dictionary. Later it may. */
  public static final class DictionaryUnavailable extends EnvelopeException {
    private static final long serialVersionUID = 1;

    DictionaryUnavailable(int number, Throwable cause) {
      super("dictionary " + Dictionary.name(number) + " can't be fetched: " + cause.getMessage(), cause);
    }
  }

  /** The declared length is over the limit. */
  public static final class TooLarge extends EnvelopeException {
    private static final long serialVersionUID = 1;

    TooLarge(long declared, int most) {
      super(declared + " bytes declared, at most " + most + " are opened");
    }
  }
}
