// What can go wrong, a class for each thing that a caller decides on.

/** All errors of this package. */
export class CinchError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/**
 * Something that begins with the magic could not be opened. Of a client's answers `stored` holds what could not be,
 * as a command such as GETDEL gives it only once.
 */
export class EnvelopeError extends CinchError {
  stored = undefined;
}

/** No version of Cinch wrote these bytes, or one far newer. */
export class Damaged extends EnvelopeError {}

/** Sealed by a newer version, with a codec this reader lacks. */
export class UnknownCodec extends EnvelopeError {}

/** The envelope names a dictionary that nobody has. */
export class DictionaryMissing extends EnvelopeError {}

/** The store did not answer when it was asked for a dictionary. Later it may. */
export class DictionaryUnavailable extends EnvelopeError {}

/** The declared length is over maxRaw. */
export class TooLarge extends EnvelopeError {}

/** A command would compute on bytes that may be an envelope. */
export class Refused extends CinchError {}
