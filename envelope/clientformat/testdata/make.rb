# Has ActiveSupport write value.json with and without compression, and keeps what then is in the server.
require "active_support"
require "active_support/cache"
require "active_support/cache/redis_cache_store"

now = Time.now
Time.define_singleton_method(:now) { now } # an entry's expiry is counted from it
value = File.binread("value.json").force_encoding("UTF-8")
port = ENV.fetch("PORT").to_i
plain = Redis.new(port: port)
{
  "rails-7.0" => [7.0, value, {}],
  "rails-7.0-object" => [7.0, { "rows" => value.lines, "of" => value }, { version: "3" }],
  "rails-7.1" => [7.1, value, {}],
  "rails-7.1-object" => [7.1, { "rows" => value.lines, "of" => value }, { version: "2026-11-27", expires_at: Time.at(4_000_000_000) }],
}.each do |name, (format, value, options)|
  ActiveSupport::Cache.format_version = format
  store = ActiveSupport::Cache::RedisCacheStore.new(redis: Redis.new(port: port))
  { "content" => false, name[0, 9] => true }.each do |file, compress|
    store.write(name, value, compress: compress, **options)
    raise "#{name} is not read" unless store.read(name, version: options[:version]) == value
    File.binwrite("#{name}/#{file}", plain.get(name))
  end
end
