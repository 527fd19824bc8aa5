# frozen_string_literal: true

require_relative "layer/version"
require_relative "layer/errors"
require_relative "layer/bytes"
require_relative "layer/blocks"
require_relative "layer/zstd"
require_relative "layer/dictionary"
require_relative "layer/envelope"
require_relative "layer/store"

module Cinch
  # Opens what Cinch's gateways have sealed. docs/FORMAT.md is the format.
  module Layer
    DEFAULT_MAX_RAW = 32 << 20

    # Returns the value that stored bytes stand for; bytes that are no envelope come back as they are.
    # dictionaries has one for a number by [], or nil: a Hash, a Proc or a Store. Raises an EnvelopeError.
    def self.open_value(stored, dictionaries = {}, max_raw: DEFAULT_MAX_RAW)
      stored = stored.b
      Envelope.sealed?(stored) ? Envelope.new(stored).open(dictionaries, max_raw) : stored
    end
  end
end
