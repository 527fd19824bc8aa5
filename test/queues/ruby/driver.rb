# Sidekiq: one line a feature with what came of it.
require_relative "jobs"
require "sidekiq/api"

COUNT = 40

def tell(what, result)
  puts "#{what}\t#{JSON.generate(result)}"
  $stdout.flush
end

def redis(&block)
  Sidekiq.redis(&block)
end

# eventually waits for what the worker does.
def eventually(what)
  600.times do
    return if yield
    sleep 0.1
  end
  abort "never: #{what}"
end

def order(n)
  eventually("#{n} notes") { redis { |r| r.llen("app:order") } >= n }
  redis { |r| r.multi { |m| m.lrange("app:order", 0, -1); m.del("app:order") } }[0]
end

def run_worker(*args)
  pid = spawn("sidekiq", "-r", File.join(__dir__, "jobs.rb"), "-q", "high", "-q", "default", "-q", "low", *args, out: :err)
  yield
ensure
  Process.kill("TERM", pid)
  Process.wait(pid)
end

# The queues are strict: what is urgent goes first.
%w[low default high].each { |q| 3.times { |n| Note.set(queue: q).perform_async("#{q} #{n}", menu(n)) } }
run_worker("-c", "1") do
  tell("priorities", order(9))
  Note.perform_in(2, "third", menu(3))
  Note.perform_in(1, "second", menu(2))
  Note.perform_in(0.1, "first", menu(1))
  waiting = Sidekiq::ScheduledSet.new.size
  tell("delayed", [order(3), waiting.positive?])
end

COUNT.times do |i|
  redis { |r| r.set("app:menu:#{i}", menu(i)); r.hset("app:order:#{i}", { "text" => menu(i), "n" => i }) }
end
run_worker("-c", "4") do
  Sidekiq::Client.push_bulk("class" => Look, "args" => (0...COUNT).map { |i| [i, menu(i)] })
  eventually("all results") { redis { |r| r.keys("app:result:*") }.size == COUNT }
  tell("once", [(0...COUNT).map { |i| redis { |r| [r.get("app:runs:#{i}").to_i, r.get("app:result:#{i}") == menu(i) + "!"] } }.uniq, Sidekiq::Queue.new.size])

  Note.perform_async("large", menu(1) * 700)
  tell("large", order(1))
  Retried.perform_async(menu(4))
  eventually("the third try") do # Sidekiq would wait for half a minute
    Sidekiq::RetrySet.new.retry_all
    redis { |r| r.exists("app:retried") } == 1
  end
  tell("retried", redis { |r| [r.get("app:retried") == menu(4), r.get("app:tries")] })
  Hopeless.perform_async(menu(5))
  eventually("a dead job") { Sidekiq::DeadSet.new.size == 1 }
  dead = Sidekiq::DeadSet.new.first
  tell("failed", [dead.klass, dead.args == [menu(5)], dead["error_message"] == menu(5)])
  dead.delete
  tell("deleted", Sidekiq::DeadSet.new.size)
  Note.perform_in(3600, "never")
  found = Sidekiq::ScheduledSet.new.scan("never").map(&:delete)
  tell("unscheduled", [found.size, Sidekiq::ScheduledSet.new.size])
end
stats = Sidekiq::Stats.new
tell("stats", [stats.processed >= COUNT, stats.failed, stats.enqueued])
