# frozen_string_literal: true

module Sojourn
  VERSION = "0.1.0"
end
