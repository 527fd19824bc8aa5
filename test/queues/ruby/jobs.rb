# The jobs, and what driver and worker share. Sidekiq loads this file.
require "sidekiq"
require "json"
require "digest"

URL = "redis://#{ENV.fetch("QUEUE_HOST")}:#{ENV.fetch("QUEUE_PORT")}/0"
Sidekiq.configure_client { |c| c.redis = { url: URL } }
Sidekiq.configure_server do |c|
  c.redis = { url: URL }
  c.options[:poll_interval_average] = 0.2
end
Sidekiq.logger.level = Logger::FATAL
Redis.raise_deprecations = false
Redis.silence_deprecations = true

# menu is a value that is worth sealing.
def menu(i)
  JSON.generate({ i: i, dishes: (0...40).map { |n| { name: "dish #{n} of #{i}", price: n * 10, tags: %w[hot cold] } } })
end

def digest(text)
  Digest::SHA256.hexdigest(text)[0, 12]
end

class Look
  include Sidekiq::Worker
  def perform(i, text)
    raise "the job is not what was queued" unless text == menu(i)
    Sidekiq.redis do |r|
      got = r.get("app:menu:#{i}")
      raise "the value is not what was stored" unless got == text && r.strlen("app:menu:#{i}") == text.bytesize && r.hget("app:order:#{i}", "text") == text
      r.incr("app:runs:#{i}")
      r.set("app:result:#{i}", text + "!")
    end
  end
end

class Note
  include Sidekiq::Worker
  def perform(name, text = "")
    Sidekiq.redis { |r| r.rpush("app:order", name + (text.empty? ? "" : " " + digest(text))) }
  end
end

class Retried
  include Sidekiq::Worker
  sidekiq_options retry: 5
  def perform(text)
    n = Sidekiq.redis { |r| r.incr("app:tries") }
    raise "not yet: #{text}" if n < 3
    Sidekiq.redis { |r| r.set("app:retried", text) }
  end
end

class Hopeless
  include Sidekiq::Worker
  sidekiq_options retry: 0
  def perform(text)
    raise text
  end
end
