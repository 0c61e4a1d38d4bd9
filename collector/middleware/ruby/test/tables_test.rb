# frozen_string_literal: true

require "test_helper"

# tests/vectors/request_start.json: which stamps are read.
class StampTableTest < Minitest::Test
  TABLE = Support.table("request_start.json")
  NOW_US = TABLE["now_us"]

  TABLE["cases"].each do |vector|
    define_method("test_#{vector["name"]}") do
      limits = vector.slice("max_age", "max_future").transform_keys(&:to_sym)
      age_us, future_us = { max_age: 3600, max_future: 10, **limits }.values.map { |limit| (limit * 1_000_000).round }
      env = Support.env_of(vector["headers"])
      expected = vector["start_us"] || vector["reason"].to_sym

      assert_equal expected, Sojourn::Stamp.read(env, NOW_US, age_us, future_us)

      delay = vector["start_us"] && format("%.6f", (NOW_US - vector["start_us"]) / 1e6)
      answer = Sojourn::Middleware.new(Support::PLAIN, clock: Support.clock(NOW_US * 1000), **limits).call(env)[1]
      service = expected == :missing ? nil : "1.250000"
      assert_equal [delay, service], answer.values_at("X-Queueing-Delay", "X-Service-Time")
    end
  end
end

# tests/vectors/answer_headers.json: which headers are sent.
class AnswerTableTest < Minitest::Test
  TABLE = Support.table("answer_headers.json")

  TABLE["cases"].each do |vector|
    define_method("test_#{vector["name"]}") do
      expected = vector["headers"].merge(vector["headers"].key?("X-Worker") ? { "X-Worker" => Process.pid.to_s } : {})
      assert_equal expected, answer(vector)
      assert_equal expected.merge("Server-Timing" => vector["server_timing"]), answer(vector, server_timing: true)
    end
  end

  def answer(vector, **options)
    app = lambda do |env|
      env["sojourn.route"] = vector["route"] if vector["route"]
      [200, {}, []]
    end
    env = vector["stamp"] ? { "HTTP_X_REQUEST_START" => vector["stamp"] } : {}
    clock = Support.clock(TABLE["now_ns"], vector["service_ns"])
    options[:always_answer] = true if vector["always_answer"]
    Sojourn::Middleware.new(app, clock: clock, **options).call(env)[1]
  end
end
