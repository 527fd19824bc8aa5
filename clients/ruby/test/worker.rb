# frozen_string_literal: true

# Opens for tests in other languages (test/library): a JSON object a line, in and out.

require "json"
require_relative "../lib/cinch/layer"

CLASSES = {
  Cinch::Layer::DictionaryMissing => "dictionary missing",
  Cinch::Layer::UnknownCodec => "unknown codec",
  Cinch::Layer::TooLarge => "too large"
}.freeze

def answer(asked)
  return { error: "unsupported" } if asked["op"] != "open"

  given = (asked["dictionaries"] || []).map { |content| Cinch::Layer::Dictionary.new(content.unpack1("m")) }
  dictionaries = given.to_h { |d| [d.number, d] }
  max_raw = asked["max_raw"] || Cinch::Layer::DEFAULT_MAX_RAW
  value = Cinch::Layer.open_value(asked["value"].unpack1("m"), dictionaries, max_raw: max_raw)
  { value: [value].pack("m0") }
rescue Cinch::Layer::EnvelopeError => e
  { error: CLASSES.fetch(e.class, "damaged") }
end

$stdout.sync = true
$stdin.each_line { |line| puts JSON.generate(answer(JSON.parse(line))) }
