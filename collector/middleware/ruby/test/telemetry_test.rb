# frozen_string_literal: true

require "test_helper"
require "opentelemetry_support"

class TelemetryTest < Minitest::Test
  NOW_NS = 1_767_225_600_000_000_000
  STAMP_US = 1_767_225_599_500_000
  TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
  PARENT = "00f067aa0ba902b7"
  ENV = {
    "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "/shop", "PATH_INFO" => "/users/7", "QUERY_STRING" => "token=secret",
    "SERVER_NAME" => "10.0.0.1", "SERVER_PORT" => "8000", "SERVER_PROTOCOL" => "HTTP/1.1", "rack.url_scheme" => "https",
    "HTTP_HOST" => "shop.example:8443", "HTTP_X_REQUEST_ID" => "abc", "HTTP_X_REQUEST_START" => STAMP_US.to_s,
    "HTTP_TRACEPARENT" => "00-#{TRACE}-#{PARENT}-01"
  }.freeze
  QUEUEING = {
    "queueing.status" => "ok", "queueing.clock_offset" => 0.2, "queueing.worker" => Process.pid.to_s,
    "queueing.delay" => 0.3, "queueing.delay.raw" => 0.5, "queueing.service_time" => 1.25,
    "http.request.header.x-request-id" => ["abc"]
  }.freeze
  HTTP = {
    "http.request.method" => "GET", "url.path" => "/shop/users/7", "url.scheme" => "https",
    "network.protocol.version" => "1.1", "server.address" => "shop.example", "server.port" => 8443,
    "http.response.status_code" => 200, "http.route" => "/users/:id"
  }.freeze

  def setup
    OtelSupport.start
    @log = Support::Log.new
    @seen = []
  end

  def teardown
    assert_equal OpenTelemetry::Context::ROOT, OpenTelemetry::Context.current
    OtelSupport.start(traces: false, metrics: false)
  end

  # One request; the app notes the current span.
  def serve(env = {}, **options, &app)
    app ||= lambda do |request|
      request["sojourn.route"] = "/users/:id"
      [200, {}, []]
    end
    noting = lambda do |request|
      @seen << OpenTelemetry::Trace.current_span
      app.call(request)
    end
    options = { clock: Support.clock(NOW_NS), clock_offset: 0.2, logger: @log, **options }
    Sojourn::Middleware.new(noting, **options).call(ENV.merge(env))
  end

  def span
    spans = OtelSupport.spans
    assert_equal 1, spans.length
    spans.first
  end

  def test_server_span_has_the_attributes
    serve
    assert_equal ["GET /users/:id", :server], [span.name, span.kind]
    assert_equal HTTP.merge(QUEUEING).sort, span.attributes.sort
    assert_equal [["http.proxy.request.started", STAMP_US * 1000]], span.events.map { |event| [event.name, event.timestamp] }
    assert_equal [TRACE, PARENT], [span.trace_id, span.parent_span_id].map { |id| id.unpack1("H*") }
    # The clock advances by 1.25 s a reading: the app's return, and the end.
    assert_equal [NOW_NS, NOW_NS + 2_500_000_000], [span.start_timestamp, span.end_timestamp]
    assert_equal ["sojourn_middleware", Sojourn::VERSION], span.instrumentation_scope.to_a.first(2)
    assert_equal span.span_id, @seen.first.context.span_id
    assert_empty @log.lines
  end

  def test_histogram_has_the_corrected_delay
    2.times { serve }
    serve({ "REQUEST_METHOD" => "BREW" }) { [418, {}, []] }
    series = OtelSupport.histogram.map { |attributes, sum, count| [attributes, sum.round(9), count] }
    expected = [
      [{ "http.request.method" => "GET", "http.route" => "/users/:id", "http.response.status_code" => 200 }, 0.6, 2],
      [{ "http.request.method" => "_OTHER", "http.response.status_code" => 418 }, 0.3, 1]
    ]
    assert_equal expected, series.sort_by(&:last).reverse
  end

  def test_negative_delay_is_in_the_span_alone
    serve({ "HTTP_X_REQUEST_START" => ((NOW_NS / 1000) + 1_000_000).to_s })
    assert_equal [-1.2, -1.0], span.attributes.values_at("queueing.delay", "queueing.delay.raw").map { |each| each.round(9) }
    assert_empty OtelSupport.histogram
  end

  def test_request_without_a_stamp
    statuses = { "" => "missing", "now" => "unparsable", "1" => "unparsable", "1,2" => "unparsable",
                 (NOW_NS + 60_000_000_000).to_s => "future", (NOW_NS - (2 * 3_600_000_000_000)).to_s => "stale" }
    statuses.each do |stamp, status|
      OtelSupport.start
      serve({ "HTTP_X_REQUEST_START" => stamp })
      assert_equal status, span.attributes["queueing.status"]
      refute(span.attributes.keys.any? { |name| name.start_with?("queueing.delay") })
      assert_empty(span.events || [])
      assert_empty OtelSupport.histogram
    end
  end

  def test_existing_span_gets_the_attributes
    outer = OpenTelemetry.tracer_provider.tracer("rack", "1").start_span("GET", kind: :server)
    OtelSupport.within(outer) { serve }
    assert_same outer, @seen.first
    assert_empty OtelSupport.spans
    outer.finish
    assert_equal QUEUEING.sort, span.attributes.sort
    assert_equal [STAMP_US * 1000], span.events.map(&:timestamp)
    assert_equal "GET", span.name
    assert_equal 1, OtelSupport.histogram.length
  end

  def test_existing_span_gets_the_attributes_if_no_provider_is_global
    outer = OpenTelemetry.tracer_provider.tracer("rack", "1").start_span("GET", kind: :server)
    OpenTelemetry.tracer_provider = OpenTelemetry::Internal::ProxyTracerProvider.new
    OtelSupport.within(outer) { serve }
    assert_equal 0.5, outer.attributes["queueing.delay.raw"]
  end

  def test_existing_span_of_an_error_is_not_ended
    outer = OpenTelemetry.tracer_provider.tracer("rack", "1").start_span("GET", kind: :server)
    OtelSupport.within(outer) { assert_raises(KeyError) { serve { raise KeyError } } }
    assert_predicate outer, :recording?
    assert_equal 0.5, outer.attributes["queueing.delay.raw"]
    refute_includes outer.attributes, "queueing.service_time"
  end

  def test_span_that_is_not_sampled_remains_the_only_one
    context = OpenTelemetry.tracer_provider.tracer("rack", "1").start_span("GET").context
    OtelSupport.within(OpenTelemetry::Trace.non_recording_span(context)) { serve }
    assert_empty OtelSupport.spans
    assert_empty @log.lines
  end

  def test_remote_span_is_a_parent
    headers = { "traceparent" => ENV["HTTP_TRACEPARENT"] }
    remote = OpenTelemetry::Trace.current_span(OpenTelemetry.propagation.extract(headers))
    OtelSupport.within(remote) { serve }
    assert_equal PARENT, span.parent_span_id.unpack1("H*")
  end

  def test_error_ends_the_span
    error = assert_raises(KeyError) { serve { raise KeyError, "lost" } }
    assert_equal "lost", error.message
    assert_equal "KeyError", span.attributes["error.type"]
    assert_equal [OpenTelemetry::Trace::Status::ERROR, "KeyError: lost"], [span.status.code, span.status.description]
    assert_equal %w[http.proxy.request.started exception], span.events.map(&:name)
    refute_includes span.attributes, "queueing.service_time"
  end

  def test_throw_and_a_taken_connection_end_the_span
    catch(:async) { serve { throw :async } }
    serve { [-1, {}, []] }
    assert_equal [nil, nil], OtelSupport.spans.map { |each| each.attributes["http.response.status_code"] }
  end

  def test_server_error_is_an_error
    serve { [503, {}, []] }
    assert_equal ["503", 503], span.attributes.values_at("error.type", "http.response.status_code")
    assert_equal OpenTelemetry::Trace::Status::ERROR, span.status.code
  end

  def test_route_of_the_app_is_recorded
    serve { [200, { "x-route" => "/of/app" }, []] }
    assert_equal ["GET /of/app", "/of/app"], [span.name, span.attributes["http.route"]]
  end

  def test_span_lasts_until_the_server_has_sent_the_response
    callbacks = []
    serve({ "rack.after_reply" => callbacks })
    assert_empty OtelSupport.spans
    callbacks.each(&:call)
    assert_equal NOW_NS + 2_500_000_000, span.end_timestamp
  end

  def test_callbacks_that_cannot_be_added_are_one_warning
    assert_equal 200, serve({ "rack.after_reply" => [].freeze })[0]
    assert_match(/\Asojourn: a request is not recorded: FrozenError/, @log.lines.first)
  end

  def test_rack_3_reports_an_error_of_the_body
    callbacks = []
    serve({ "rack.response_finished" => callbacks })
    callbacks.each { |each| each.call({}, 200, {}, IOError.new("gone")) }
    assert_equal "IOError", span.attributes["error.type"]
  end

  def test_context_of_an_instrumentation_inside_is_detached_first
    callbacks = []
    inner = nil
    serve({ "rack.after_reply" => callbacks }) do
      inner = OpenTelemetry::Context.attach(OpenTelemetry::Context.current.set_value("inner", true))
      [200, {}, []]
    end
    # As Rack::Events does when the body is closed.
    OpenTelemetry::Context.detach(inner)
    callbacks.each(&:call)
    assert_equal "GET", span.name
  end

  def test_requests_in_progress
    active = []
    serve { active << OtelSupport.active.dup; [200, {}, []] }
    assert_raises(KeyError) { serve({ "REQUEST_METHOD" => "BREW" }) { raise KeyError } }
    series = ->(method) { { "http.request.method" => method, "url.scheme" => "https" } }
    assert_equal [{ series.call("GET") => 1 }], active
    assert_equal({ series.call("GET") => 0, series.call("_OTHER") => 0 }, OtelSupport.active)
  end

  def test_request_with_an_existing_span_is_in_progress
    outer = OpenTelemetry.tracer_provider.tracer("rack", "1").start_span("GET", kind: :server)
    active = nil
    OtelSupport.within(outer) { serve { active = OtelSupport.active.values.dup; [200, {}, []] } }
    assert_equal [[1], [0]], [active, OtelSupport.active.values]
  end

  def test_request_is_in_progress_until_the_server_has_sent_the_response
    callbacks = []
    serve({ "rack.after_reply" => callbacks })
    assert_equal [1], OtelSupport.active.values
    callbacks.each(&:call)
    assert_equal [0], OtelSupport.active.values
  end

  def test_attributes_are_valid_text
    serve({ "REQUEST_METHOD" => "br\xff".b, "PATH_INFO" => "/\xff".b, "HTTP_X_REQUEST_ID" => "\xff".b, "HTTP_HOST" => "[::1]:80" })
    values = span.attributes.values_at("http.request.method", "http.request.method_original", "url.path",
                                       "http.request.header.x-request-id", "server.address", "server.port")
    assert_equal ["_OTHER", "br\uFFFD", "/shop/\uFFFD", ["\uFFFD"], "::1", 80], values
    assert_equal "HTTP /users/:id", span.name
  end

  def test_address_of_the_server_without_a_host
    serve({ "HTTP_HOST" => nil })
    assert_equal ["10.0.0.1", 8000], span.attributes.values_at("server.address", "server.port")
  end

  def test_nothing_is_recorded_without_a_provider
    OtelSupport.start(traces: false, metrics: false)
    serve
    assert_equal [OpenTelemetry::Trace::Span::INVALID], @seen
    assert_empty @log.lines
  end

  def test_histogram_without_a_tracer_provider
    OtelSupport.start(traces: false)
    serve
    assert_equal [1], OtelSupport.histogram.map(&:last)
    assert_equal [OpenTelemetry::Trace::Span::INVALID], @seen
  end

  def test_span_without_a_meter_provider
    OtelSupport.start(metrics: false)
    serve
    assert_equal "ok", span.attributes["queueing.status"]
  end

  def test_telemetry_can_be_switched_off
    serve({}, telemetry: false)
    assert_empty OtelSupport.spans
    assert_empty OtelSupport.histogram
  end

  def test_own_providers_are_used
    tracers = OpenTelemetry.tracer_provider
    OpenTelemetry.tracer_provider = OpenTelemetry::Internal::ProxyTracerProvider.new
    serve({}, telemetry: Sojourn::Telemetry.new(tracer_provider: tracers))
    assert_equal "ok", span.attributes["queueing.status"]
    assert_empty OtelSupport.histogram
  end

  # A provider without a tracer is as broken as it can be.
  def test_failure_to_record_is_one_warning
    middleware = Sojourn::Middleware.new(Support::PLAIN, telemetry: Sojourn::Telemetry.new(tracer_provider: Object.new),
                                                         logger: @log)
    2.times { assert_equal 200, middleware.call(ENV.dup)[0] }
    assert_equal 1, @log.lines.length
    assert_match(/\Asojourn: a request is not recorded: NoMethodError/, @log.lines.first)
  end
end
