# frozen_string_literal: true

# Opens what envelope/testdata/bombs has: few bytes that declare many, and counts the work, which no clock does. It exits with 1 if that is too much.

require "json"
require_relative "../lib/cinch/layer"

WORK = { lines: 0, calls: 0 }
COUNTER = TracePoint.new(:line, :c_call) do |t|
  WORK[t.event == :line ? :lines : :calls] += 1 if t.path.end_with?("blocks.rb", "bytes.rb")
end

def opened(stored)
  WORK.update(lines: 0, calls: 0)
  COUNTER.enable { Cinch::Layer.open_value(stored, {}) }
rescue Cinch::Layer::Damaged
  nil
end

def wanted(bomb)
  return if bomb["error"]

  period = bomb["period"].unpack1("m")
  (period * (bomb["raw_len"] / period.bytesize + 1)).byteslice(0, bomb["raw_len"])
end

bombs = JSON.parse(File.read(File.expand_path("../../../envelope/testdata/bombs/index.json", __dir__)))
problems = bombs.size > 15 ? [] : ["#{bombs.size} bombs"]
bombs.each do |bomb|
  stored = bomb["stored"].unpack1("m")
  problems << "#{bomb["name"]}: it opens to something else" if opened(stored) != wanted(bomb)
  limit = 40 * stored.bytesize + 400
  problems << "#{bomb["name"]}: #{WORK} for #{stored.bytesize} bytes" if WORK.values.max > limit
end
puts problems, "#{bombs.size} bombs"
exit problems.empty?
