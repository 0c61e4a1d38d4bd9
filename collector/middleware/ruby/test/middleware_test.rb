# frozen_string_literal: true

require "test_helper"

class MiddlewareTest < Minitest::Test
  NOW_US = 1_767_225_600_000_000
  # A stamp that is refused: the response has all headers but X-Queueing-Delay.
  REFUSED = { "HTTP_X_REQUEST_START" => "junk" }.freeze

  def answer(env = REFUSED.dup, **options, &app)
    Sojourn::Middleware.new(app, clock: Support.clock(NOW_US * 1000), **options).call(env)
  end

  def headers(env = REFUSED.dup, **options, &app)
    answer(env, **options, &app || Support::PLAIN)[1]
  end

  def unmeasured
    { "X-Service-Time" => "1.250000", "X-Worker" => Process.pid.to_s }
  end

  def test_bodies_are_the_same_objects
    to_path = Struct.new(:to_path).new("/some/file")
    streaming = ->(stream) { stream.write("x") }
    [[], ["x"], to_path, streaming, [].each].each do |body|
      assert_same body, answer { [200, {}, body] }[2]
    end
  end

  def test_headers_are_replaced_in_a_copy
    own = { "X-Worker" => "the app's" }.freeze
    assert_equal unmeasured, headers { [200, own, []] }
    assert_equal({ "X-Worker" => "the app's" }, own)
  end

  def test_headers_that_are_no_hash
    assert_equal unmeasured.merge("a" => "b"), headers { [200, [%w[a b], %w[x-worker w]], []] }
  end

  def test_route_of_the_env_replaces_the_header
    own = headers { |env| env["sojourn.route"] = "/é\r\nX: y"; [200, { "x-route" => "old" }, []] }
    assert_equal "/%C3%A9%0D%0AX: y", own["X-Route"]
    refute_includes own, "x-route"
  end

  def test_route_of_the_app_is_kept_if_no_other_is_known
    assert_equal "/old", headers { [200, { "x-route" => "/old" }, []] }["x-route"]
  end

  def test_route_option_goes_first
    env = { **REFUSED, "shop.route" => "/option" }
    options = { route: ->(request) { request["shop.route"] } }
    set = ->(request) { request["sojourn.route"] = "/env"; [200, {}, []] }
    assert_equal "/option", headers(env, **options, &set)["X-Route"]
    assert_equal "/env", headers(REFUSED.dup, **options, &set)["X-Route"]
    assert_equal "/env", headers(REFUSED.dup, route: ->(_) { "" }, &set)["X-Route"]
  end

  def test_failing_route_is_one_warning
    log = Support::Log.new
    middleware = Sojourn::Middleware.new(Support::PLAIN, route: ->(_) { raise KeyError, "no" }, logger: log)
    2.times { assert_equal %w[X-Service-Time X-Worker], middleware.call(REFUSED.dup)[1].keys }
    assert_equal ["sojourn: the route of a request is unknown: KeyError: no; the same again will not be logged"],
                 log.lines
  end

  def test_warning_without_a_logger_goes_to_standard_error
    _, error = capture_io { headers({}, route: ->(_) { raise KeyError, "no" }) }
    assert_match(/\Asojourn: the route of a request is unknown: KeyError: no/, error)
  end

  def test_server_timing_is_appended
    app = ->(_) { [200, { "server-timing" => "db;dur=1\ncache" }, []] }
    assert_equal "db;dur=1\ncache, app;dur=1250.000", headers({}, server_timing: true, &app)["server-timing"]
    assert_equal "db;dur=1\ncache", headers({}, &app)["server-timing"]
    list = ["db;dur=1"].freeze
    app = ->(_) { [200, { "server-timing" => list }, []] }
    assert_equal ["db;dur=1", "app;dur=1250.000"], headers({}, server_timing: true, &app)["server-timing"]
  end

  def test_hostile_values_are_refused
    ["t=\xff\xfe", "#{NOW_US}\n", "t=#{" " * 100_000}1"].each do |value|
      assert_equal unmeasured, headers({ "HTTP_X_REQUEST_START" => value })
    end
  end

  def test_stamp_is_read_before_the_app_changes_it
    env = { "HTTP_X_REQUEST_START" => (NOW_US - 500_000).to_s }
    delay = headers(env) { |request| request.clear; [200, {}, []] }["X-Queueing-Delay"]
    assert_equal "0.500000", delay
  end

  def test_clock_offset_does_not_change_the_header
    env = { "HTTP_X_REQUEST_START" => (NOW_US - 500_000).to_s }
    assert_equal "0.500000", headers(env, clock_offset: 0.2)["X-Queueing-Delay"]
  end

  def test_errors_pass_through
    assert_raises(KeyError) { answer { raise KeyError } }
    assert_raises(SystemExit) { answer { exit 3 } }
    assert_equal(:halted, catch(:halt) { answer { throw :halt, :halted } })
  end

  def test_responses_for_the_server_alone_are_unchanged
    assert_nil answer { nil }
    [[-1, {}, []], [Object.new, {}, []], []].each { |response| assert_same response, answer { response } }
  end

  def test_failing_clock_leaves_the_request_unmeasured
    log = Support::Log.new
    middleware = Sojourn::Middleware.new(Support::PLAIN, clock: -> { raise IOError, "stopped" }, logger: log)
    assert_equal [200, {}, []], middleware.call({})
    assert_equal 1, log.lines.length
  end

  def test_headers_that_cannot_be_copied_leave_unchanged
    log = Support::Log.new
    response = [200, Object.new, []]
    assert_same response, answer({}, logger: log) { response }
    assert_match(/a response leaves without its measurements: NoMethodError/, log.lines.first)
  end

  def test_bad_options_are_refused_at_once
    [-1, Float::NAN, Float::INFINITY, "60", nil, Complex(1, 1)].each do |limit|
      assert_raises(ArgumentError) { Sojourn::Middleware.new(nil, max_age: limit) }
      assert_raises(ArgumentError) { Sojourn::Middleware.new(nil, max_future: limit) }
    end
    [Float::NAN, Float::INFINITY, "60", nil].each do |offset|
      assert_raises(ArgumentError) { Sojourn::Middleware.new(nil, clock_offset: offset) }
    end
    assert_raises(ArgumentError) { Sojourn::Middleware.new(nil, route: "/users") }
    assert_raises(ArgumentError) { Sojourn::Middleware.new(nil, telemetry: nil) }
    assert_raises(ArgumentError) { Sojourn::Middleware.new(nil, max_aeg: 1) }
  end

  def test_inner_of_two_adds_nothing
    calls = 0
    route = ->(_) { calls += 1; "/once" }
    env = REFUSED.dup
    inner = Sojourn::Middleware.new(Support::PLAIN, clock: Support.clock(NOW_US * 1000), route: route)
    assert_equal unmeasured, headers(env, &inner.method(:call))
    assert_equal 0, calls
    # The same env can be served again, as Rack::Cascade does.
    assert_equal "/once", inner.call(env)[1]["X-Route"]
  end
end
