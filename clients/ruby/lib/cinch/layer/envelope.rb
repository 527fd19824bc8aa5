# frozen_string_literal: true

require "openssl"
require "zlib"

module Cinch
  module Layer
    # A header and what it belongs to: docs/FORMAT.md, from which this was written.
    class Envelope
      MAGIC = "\xC1\xDD\xDC".b.freeze
      RAW, SNAPPY, S2, MINLZ, LZ4, ZSTD, ZLIB, GZIP = *0..7
      PIECE = 4096

      attr_reader :codec, :raw_length, :dictionary # a number, 0: none

      def self.sealed?(stored)
        stored.start_with?(MAGIC)
      end

      # Reads the header of something that begins with the magic.
      def initialize(stored)
        @stored = stored
        version, @codec = Bytes.at(stored, 3).divmod(16)
        flags = Bytes.at(stored, 4)
        raise Damaged, "unknown version, or a reserved flag is set" if version != 1 || flags & 0x30 != 0

        @raw_length, @check_at = Bytes.uvarint(stored, 5)
        @tagged = flags & 0x80 != 0
        @check = Bytes.cut(stored, @check_at, @tagged ? 8 : 4)
        @dictionary, at = number_at(@check_at + @check.bytesize)
        words = Bytes.cut(stored, at, 4 * (flags & 15))
        @length = at + words.bytesize
        @codec = foreign(words.bytes) if flags & 0x40 != 0
      end

      def open(dictionaries, max_raw)
        raise UnknownCodec, "codec #{codec}" if codec > GZIP
        raise TooLarge, "#{raw_length} bytes declared, at most #{max_raw} are opened" if codec != RAW && raw_length > max_raw

        with = @tagged ? checked(Dictionary.find(dictionaries, dictionary)) : nil
        value = decode(@stored.byteslice(@length..), with)
        raise Damaged, "#{value.bytesize} bytes, #{raw_length} declared" if value.bytesize != raw_length
        raise Damaged, "checksum does not match" if with.nil? && [Zlib.crc32(value)].pack("V") != @check

        value
      end

      private

      # What is sealed is the content of a value in another library's format, which we can't write: an unknown codec.
      def foreign(words)
        raise Damaged, "no format of the value is named" if words[0] != 1 || words[1].zero? || words[3] != 0

        0x40 + words[1]
      end

      def number_at(at)
        return 0, at unless @tagged

        number = Bytes.cut(@stored, at, 4).unpack1("N")
        raise Damaged, "dictionary number is 0, or the codec takes none" if number.zero? || codec <= GZIP && codec != ZSTD

        [number, at + 4]
      end

      # Before anything is decoded: nobody makes a tag who has no dictionary.
      def checked(with)
        tag = with.tag(@stored.byteslice(0, @check_at) + @stored.byteslice(@check_at + 8..))
        raise Damaged, "tag does not match" unless OpenSSL.fixed_length_secure_compare(tag, @check)

        with
      end

      def decode(payload, with)
        case codec
        when RAW then payload
        when SNAPPY, S2 then Blocks.new(payload, raw_length).snappy(codec == S2)
        when MINLZ then Blocks.new(payload, raw_length).minlz
        when LZ4 then Blocks.new(payload, raw_length).lz4
        when ZSTD then Zstd.open(payload, raw_length, with)
        else inflate(payload, Zlib::MAX_WBITS + (codec == GZIP ? 16 : 0))
        end
      end

      # A few bytes at a time, of which none becomes more than some 1,000, so that a bomb is seen early.
      def inflate(payload, bits)
        z = Zlib::Inflate.new(bits)
        value = "".b
        (0...payload.bytesize).step(PIECE) do |at|
          value << z.inflate(payload.byteslice(at, PIECE))
          raise Damaged, "payload is longer than declared" if z.finished? && at + PIECE < payload.bytesize || value.bytesize > raw_length
        end
        raise Damaged, "payload does not end with the stream" unless z.finished? && z.total_in == payload.bytesize

        value
      rescue Zlib::Error => e
        raise Damaged, e.message
      ensure
        z&.close
      end
    end
  end
end
