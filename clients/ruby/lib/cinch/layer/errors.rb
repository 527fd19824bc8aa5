# frozen_string_literal: true

module Cinch
  module Layer
    # Something that begins with the magic could not be opened.
    class EnvelopeError < StandardError; end

    # No version of Cinch wrote these bytes, or one far newer.
    class Damaged < EnvelopeError; end

    # Sealed by a newer version, with a codec that this reader lacks.
    class UnknownCodec < EnvelopeError; end

    # The envelope names a dictionary that nobody has.
    class DictionaryMissing < EnvelopeError; end

    # The declared length is over the limit.
    class TooLarge < EnvelopeError; end
  end
end
