# frozen_string_literal: true

module Cinch
  module Layer
    # The dictionaries of a Redis server, by redis-rb. It keeps what it has fetched.
    #
    #     value = Cinch::Layer.open_value(redis.get("order:42"), store)
    class Store
      PLACES = { "cinch_dict_" => "cinch:dict:", "cinch_archive_" => "cinch:dict:archive:" }.freeze
      UNKNOWN = /function not found|unknown command/i.freeze

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
        PLACES.each do |library, key|
          content = ask(format("%08x", number), library, key) or next
          found = Dictionary.new(content)
          return found.number == number ? found : nil
        end
        nil
      end

      # A function of the server answers; where it has none, as before Redis 7, there may be a key.
      def ask(name, library, key)
        @redis.call("FCALL_RO", library + name, 0).unpack1("m")
      rescue StandardError => e # each client has classes of its own
        raise unless UNKNOWN.match?(e.message)

        @redis.call("GET", key + name)
      end
    end
  end
end
