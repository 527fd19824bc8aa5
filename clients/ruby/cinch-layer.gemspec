# frozen_string_literal: true

require_relative "lib/cinch/layer/version"

Gem::Specification.new do |s|
  s.name = "cinch-layer"
  s.version = Cinch::Layer::VERSION
  s.summary = "Reads values compressed by Cinch, with redis-rb or from files, without a gateway"
  s.authors = ["The Cinch authors"]
  s.license = "Apache-2.0"
  s.homepage = "https://github.com/cinch-layer/cinch"
  s.required_ruby_version = ">= 2.7"
  s.files = Dir["lib/**/*.rb", "README.md"]
  s.add_dependency "fiddle"
end
