# Has ActiveSupport read what Append made, and compares.
require "active_support"
require "active_support/cache"
require "active_support/cache/redis_cache_store"

ActiveSupport::Cache.format_version = 7.1 # which reads 7.0 as well
port = ENV.fetch("PORT").to_i
plain = Redis.new(port: port)
store = ActiveSupport::Cache::RedisCacheStore.new(redis: Redis.new(port: port))
paths = Dir[File.join(ENV.fetch("FOREIGN_OUT"), "*.of.*.rails-7.?")]
paths.each do |path|
  plain.set("key", File.binread(path))
  abort "#{path}: other bytes" unless store.read("key")&.b == File.binread(path[/.*(?=\.of\.)/])
end
puts "#{paths.size} values open in Ruby"
