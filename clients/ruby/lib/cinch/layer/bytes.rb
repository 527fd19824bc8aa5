# frozen_string_literal: true

module Cinch
  module Layer
    # Reads of a binary string that end in Damaged where there is nothing left to read.
    module Bytes
      module_function

      def at(b, at)
        b.getbyte(at) or raise Damaged, "it is cut off"
      end

      def cut(b, at, n)
        raise Damaged, "it is cut off" if n > b.bytesize - at

        b.byteslice(at, n)
      end

      def little(b, at, n)
        (0...n).sum { |i| at(b, at + i) << (8 * i) }
      end

      # The number, and where the next thing begins.
      def uvarint(b, at)
        value = 0
        5.times do |i|
          c = at(b, at + i)
          value |= (c & 0x7F) << (7 * i)
          next if c >= 0x80
          raise Damaged, "length is not canonical" if i.positive? && c.zero?

          return value, at + i + 1
        end
        raise Damaged, "length is too long"
      end
    end
  end
end
