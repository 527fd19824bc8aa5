# frozen_string_literal: true

require "fiddle"

module Cinch
  module Layer
    # The system's libzstd by Fiddle: what is declared is all that is ever allocated for a value.
    module Zstd
      MAGIC = "\x28\xB5\x2F\xFD".b.freeze
      LIBRARY = Fiddle.dlopen("libzstd.so.1")
      POINTER, SIZE = Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T

      def self.function(name, takes, gives)
        Fiddle::Function.new(LIBRARY[name], takes, gives)
      end

      CREATE = function("ZSTD_createDCtx", [], POINTER)
      FREE = function("ZSTD_freeDCtx", [POINTER], SIZE)
      PREPARE = function("ZSTD_createDDict", [POINTER, SIZE], POINTER)
      FORGET = function("ZSTD_freeDDict", [POINTER], SIZE)
      FRAME_SIZE = function("ZSTD_findFrameCompressedSize", [POINTER, SIZE], SIZE)
      DECOMPRESS = function("ZSTD_decompress_usingDDict", [POINTER, POINTER, SIZE, POINTER, SIZE, POINTER], SIZE)
      IS_ERROR = function("ZSTD_isError", [SIZE], Fiddle::TYPE_INT)

      # Fiddle lets other threads run meanwhile, so each call has a context of its own.
      def self.open(payload, raw_length, dictionary)
        frame = MAGIC + payload
        raise Damaged, "payload is not one frame" if FRAME_SIZE.call(frame, frame.bytesize) != frame.bytesize

        context = Fiddle::Pointer.new(CREATE.call, 0, FREE)
        value = "\0".b * raw_length
        n = DECOMPRESS.call(context, value, raw_length, frame, frame.bytesize, dictionary&.prepared)
        raise Damaged, "payload does not decode to the declared length" unless IS_ERROR.call(n).zero?

        value.byteslice(0, n)
      end

      # It is freed when nothing refers to it any more.
      def self.prepare(content)
        at = PREPARE.call(content, content.bytesize)
        raise Damaged, "the dictionary is malformed" if at.null?

        Fiddle::Pointer.new(at.to_i, 0, FORGET)
      end
    end
  end
end
