"""What can go wrong, a class for each thing that a caller decides on."""


class CinchError(Exception):
    """All errors of this package."""


class EnvelopeError(CinchError):
    """Something that begins with the magic could not be opened.

    Of a client's answers stored holds what could not be, as a command such as GETDEL gives it only once.
    """

    stored = None


class Damaged(EnvelopeError):
    """No version of Cinch wrote these bytes, or one far newer."""


class UnknownCodec(EnvelopeError):
    """Sealed by a newer version, with a codec this reader lacks."""


class DictionaryMissing(EnvelopeError):
    """The envelope names a dictionary that nobody has."""


class DictionaryUnavailable(EnvelopeError):
    """The store did not answer when it was asked for a dictionary. Later it may."""


class TooLarge(EnvelopeError):
    """The declared length is over max_raw."""


class Refused(CinchError):
    """A command would compute on bytes that may be an envelope."""
