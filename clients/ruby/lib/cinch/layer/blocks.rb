# frozen_string_literal: true

module Cinch
  module Layer
    # Decoders of snappy, s2, minlz and lz4 blocks, at some MB a second: enough to read what a gateway sealed with one of them.
    class Blocks
      def initialize(b, limit)
        @b = b
        @limit = limit
        @at = 0
        @out = "".b
      end

      def lz4
        while more?
          token = little(1)
          literals(lz4_length(token >> 4))
          break unless more? # the last sequence is literals only

          offset = little(2)
          copy(offset, lz4_length(token & 15) + 4)
        end
        @out
      end

      def snappy(repeats)
        declared
        @offset = 0
        while more?
          tag = little(1)
          n = tag >> 2
          case tag & 3
          when 0 then literals(1 + (n < 60 ? n : little(n - 59)))
          when 1
            n = near(tag, repeats) # sets the offset
            copy(@offset, n)
          else copy(@offset = little(tag & 3 == 2 ? 2 : 4), n + 1)
          end
        end
        @out
      end

      # Implements the block format of the MinLZ specification 1.0.
      def minlz
        raise Damaged, "not a MinLZ block" unless little(1).zero?
        return @out unless more?
        return @b.byteslice(2..) if @b.getbyte(1).zero?
        raise Damaged, "longer than a MinLZ block" if declared > 8 << 20

        @offset = 1
        minlz_step while more?
        @out
      end

      private

      def minlz_step
        tag = little(1)
        case tag & 3
        when 0 then minlz_plain(tag)
        when 1 then minlz_near(tag)
        when 2
          @offset = 64 + little(2)
          copy(@offset, minlz_copy_length(tag >> 2))
        else tag & 4 == 0 ? minlz_two(tag) : minlz_far(tag)
        end
      end

      def minlz_plain(tag)
        n = minlz_length(tag >> 3, 28, 30) + (tag >> 3 < 29 ? 1 : 0)
        tag & 4 == 0 ? literals(n) : copy(@offset, n)
      end

      def minlz_near(tag)
        @offset = 1 + (tag >> 6 | little(1) << 2)
        n = tag >> 2 & 15
        copy(@offset, n == 15 ? 18 + little(1) : 4 + n)
      end

      def minlz_two(tag)
        @offset = 64 + little(2)
        literals(1 + (tag >> 3 & 3))
        copy(@offset, 4 + (tag >> 5))
      end

      def minlz_far(tag)
        word = tag | little(3) << 8
        @offset = 65_536 + (word >> 11)
        n = minlz_copy_length(word >> 5 & 63)
        literals(word >> 3 & 3)
        copy(@offset, n)
      end

      def minlz_copy_length(value)
        minlz_length(value, 60, 64) + (value <= 60 ? 4 : 0)
      end

      # Values up to last stand for themselves, the next three for base plus 1, 2 or 3 more bytes.
      def minlz_length(value, last, base)
        value <= last ? value : base + little(value - last)
      end

      # The length of a copy from nearby; S2 repeats the last offset where none is given.
      def near(tag, repeats)
        n = tag >> 2 & 7
        given = tag >> 5 << 8 | little(1)
        if given.positive? || !repeats
          @offset = given
          return n + 4
        end
        case n
        when 5 then 8 + little(1)
        when 6 then 260 + little(2)
        when 7 then 65_540 + little(3)
        else 4 + n
        end
      end

      def lz4_length(n)
        return n if n < 15

        loop do
          c = little(1)
          n += c
          return n if c != 255
        end
      end

      def more?
        @at < @b.bytesize
      end

      # The length that the block itself begins with.
      def declared
        n, @at = Bytes.uvarint(@b, @at)
        raise Damaged, "lengths differ" if n != @limit

        n
      end

      def little(n)
        value = Bytes.little(@b, @at, n)
        @at += n
        value
      end

      def literals(n)
        raise Damaged, "literals leave the block" if n > @b.bytesize - @at || n > @limit - @out.bytesize

        @out << @b.byteslice(@at, n)
        @at += n
      end

      # Appends n bytes from offset bytes back; the two may overlap.
      def copy(offset, n)
        raise Damaged, "copy leaves the block" if !offset.between?(1, @out.bytesize) || n > @limit - @out.bytesize

        from = @out.byteslice(@out.bytesize - offset, [offset, n].min)
        @out << (n <= offset ? from : (from * (n / offset + 1)).byteslice(0, n))
      end
    end
  end
end
