# frozen_string_literal: true

module Cinch
  module Layer
    # The dictionaries of a Redis server, by redis-rb. It keeps what it has fetched.
    #
    #     value = Cinch::Layer.open_value(redis.get("order:42"), store)
    class Store
      PLACES = { "cinch_dict_" => "cinch:dict:", "cinch_archive_" => "cinch:dict:archive:" }.freeze
      UNKNOWN = /unknown command/i.freeze
      COMPRESSED = /\n-- zstd ([0-9]{1,6}) (\S+)\n/.freeze

      # The client stands at database 0. What it raises when the server does not answer, [] raises.
      def initialize(redis)
        @redis = redis
        @held = {}
      end

      def [](number)
        @held[number] ||= fetch(number)
      end

      private

      def fetch(number)
        name = format("%08x", number)
        sources = libraries("cinch_*_#{name}")
        PLACES.each do |library, key|
          source = sources[library + name]
          content = source ? content_of(source) : @redis.call("GET", key + name)
          next unless content

          return unless Dictionary::SIZES.cover?(content.bytesize)

          found = Dictionary.new(content)
          return found.number == number ? found : nil
        end
        nil
      end

      # The sources of libraries, by name; none where the server has no functions, as before Redis 7.
      def libraries(pattern)
        listed = @redis.call("FUNCTION", "LIST", "LIBRARYNAME", pattern, "WITHCODE")
        listed.to_h do |library| # a list of names and values, or a map
          fields = library.is_a?(Hash) ? library : library.each_slice(2).to_h
          fields.values_at("library_name", "library_code")
        end
      rescue StandardError => e # each client has classes of its own
        raise unless UNKNOWN.match?(e.message)

        {}
      end

      # What a library holds: compressed in a comment or, from 0.1.0, plain in the text that the function returns. Empty where there
      # is none.
      def content_of(source)
        source = source.b
        found = COMPRESSED.match(source) or return source[/return '([^']*)'/, 1].to_s.unpack1("m")

        Zstd.open(found[2].unpack1("m").byteslice(4..).to_s, [found[1].to_i, Dictionary::SIZES.max].min, nil)
      rescue Damaged
        ""
      end
    end
  end
end
