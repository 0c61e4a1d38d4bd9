# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "sojourn-middleware"

# What the tests share: the tables of all languages, and calls without a server.
module Support
  ROOT = File.expand_path("..", __dir__)
  VECTORS = ENV.fetch("SOJOURN_VECTORS") { File.expand_path("../../../tests/vectors", ROOT) }

  # [200, {}, []], the same object for every request.
  PLAIN = ->(_env) { [200, {}, []] }

  module_function

  def table(name)
    JSON.parse(File.read(File.join(VECTORS, name), encoding: "UTF-8"))
  end

  # Clocks that stand at the instant; each further reading advances the monotonic one by the step.
  def clock(wall_ns, step_ns = 1_250_000_000)
    monotonic = 0
    -> { [wall_ns, monotonic += step_ns] }
  end

  # As a server does it: repeated headers are joined with a comma.
  def env_of(headers)
    headers.each_with_object({}) do |(name, value), env|
      key = "HTTP_#{name.upcase.tr("-", "_")}"
      env[key] = env.key?(key) ? "#{env[key]},#{value}" : value
    end
  end

  # Collects warnings as a logger does.
  class Log
    attr_reader :lines

    def initialize
      @lines = []
    end

    def warn(line)
      @lines << line
    end
  end
end
