# frozen_string_literal: true

module Cinch
  module Layer
    VERSION = "0.1.0"
  end
end
