# frozen_string_literal: true

require "digest"

module Cinch
  module Layer
    # Immutable bytes with a number, and what zstd has made of them.
    class Dictionary
      SIZES = (16..512 << 10).freeze

      attr_reader :content, :number

      # The dictionary of that number. What lies under it and has another one is none.
      def self.find(dictionaries, number)
        found = dictionaries[number]
        found = new(found) if found.is_a?(String)
        raise DictionaryMissing, format("%08x", number) unless found&.number == number

        found
      end

      def initialize(content)
        raise ArgumentError, "a dictionary has 16 bytes to 512 KiB, this has #{content.bytesize}" unless SIZES.cover?(content.bytesize)

        @content = content.b.freeze
        @number = Digest::SHA256.digest(@content).unpack1("N")
        @key = Digest::SHA256.digest("cinch tag v1".b + @content)
      end

      # The tag of an envelope, given all of it but the tag.
      def tag(rest)
        OpenSSL::HMAC.digest("SHA256", @key, rest).byteslice(0, 8)
      end

      # The dictionary as libzstd has it.
      def prepared
        @prepared ||= Zstd.prepare(content)
      end
    end
  end
end
