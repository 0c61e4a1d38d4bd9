# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"

# Rack 3 in a process of its own, of which the gem reads the version alone.
class Rack3Test < Minitest::Test
  SCRIPT = <<~RUBY
    require "json"
    module Rack
      def self.release
        "3.1.0"
      end
    end
    require "sojourn-middleware"
    headers = { "x-worker" => "the app's", "content-type" => "text/plain", "server-timing" => ["db;dur=1"] }
    app = lambda do |env|
      env["sojourn.route"] = "/users/:id"
      [200, headers, []]
    end
    stamp = format("t=%.3f", Process.clock_gettime(Process::CLOCK_REALTIME) - 2)
    puts JSON.generate(Sojourn::Middleware.new(app, server_timing: true).call({ "HTTP_X_REQUEST_START" => stamp })[1])
  RUBY

  def test_names_are_in_lower_case
    output, errors, status = Open3.capture3(RbConfig.ruby, "-w", "-I#{Support::ROOT}/lib", "-e", SCRIPT)
    assert_equal [true, ""], [status.success?, errors]
    headers = JSON.parse(output)
    assert_equal %w[content-type server-timing x-queueing-delay x-route x-service-time x-worker], headers.keys.sort
    assert_match(/\A[1-9]\d*\z/, headers["x-worker"])
    # The stamp is rounded to a millisecond.
    assert_operator headers["x-queueing-delay"].to_f, :>=, 1.99
    own, added = headers["server-timing"]
    assert_equal "db;dur=1", own
    assert_match(/\Aqueue;dur=\d+\.\d{3}, app;dur=\d+\.\d{3}\z/, added)
  end
end
