# frozen_string_literal: true

# Prints each key of the server at a port, and its value in base64.

require "redis"
require_relative "../../../clients/ruby/lib/cinch/layer"

redis = Redis.new(port: Integer(ARGV[0]))
dictionaries = Cinch::Layer::Store.new(redis)
redis.scan_each(match: "reading:*") do |key|
  puts "#{key} #{[Cinch::Layer.open_value(redis.get(key), dictionaries)].pack('m0')}"
end
