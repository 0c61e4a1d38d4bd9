# frozen_string_literal: true

require_relative "answer"
require_relative "exchange"
require_relative "prometheus_metrics"
require_relative "route"
require_relative "stamp"
require_relative "telemetry"
require_relative "version"
require_relative "warnings"
require_relative "worker"

module Sojourn
  # Rack middleware that answers with the request's queueing delay and service time. Works with Rack 2 and Rack 3,
  # needs no gem. In config.ru, before everything else:
  #
  #     require "sojourn-middleware"
  #     use Sojourn::Middleware
  #
  # Queueing delay: from the proxy's stamp to the call of this middleware. Service time: from that call until the app
  # returns its status and headers; a body produced lazily by `each` or by a callable comes after that.
  class Middleware
    # In the env while the app is called, so that a second, inner middleware adds nothing.
    MEASURED = "sojourn.measured"

    # [wall clock, monotonic clock] in nanoseconds.
    CLOCK = lambda do
      [Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond),
       Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)]
    end
    private_constant :MEASURED

    # Options:
    #
    # max_age::       seconds, 3600; an older stamp is refused as stale.
    # max_future::    seconds, 10; a stamp further ahead of this clock is refused as future.
    # clock_offset::  seconds, 0, by which this machine's clock is ahead of the proxy's; corrects span and histogram,
    #                 never the header.
    # route::         a callable from the env, after the app's call, to the route's template or nil.
    # server_timing:: true adds Server-Timing.
    # always_answer:: true sends the measurements in answers to requests without a stamp, too.
    # telemetry::     true (OpenTelemetry if the app has set it up), false, or a Sojourn::Telemetry.
    # prometheus::    true for metrics in the default registry of the gem prometheus-client, or a registry.
    # prometheus_name:: the name of the histogram of queueing delays.
    # service::       a label of the metrics; without one, OTEL_SERVICE_NAME.
    # logger::        what gets a warning if a measurement fails (#warn); without one, standard error.
    # clock::         replaces CLOCK in tests.
    #
    # Raises ArgumentError for an option of another kind.
    def initialize(app, max_age: 3600, max_future: 10, clock_offset: 0, route: nil, server_timing: false,
                   always_answer: false, telemetry: true, prometheus: false, prometheus_name: PrometheusMetrics::QUEUEING_DELAY, service: nil,
                   logger: nil, clock: CLOCK)
      @app = app
      @max_age_us = microseconds("max_age", max_age)
      @max_future_us = microseconds("max_future", max_future)
      @clock_offset = offset(clock_offset)
      @route = callable(route)
      @answer = Answer.new(server_timing: server_timing, always_answer: always_answer)
      @warnings = Warnings.new(logger)
      @telemetry = telemetry_of(telemetry)
      @metrics = PrometheusMetrics.of(prometheus, service: service, name: prometheus_name, warnings: @warnings)
      @clock = clock
    end

    # Serves one request.
    def call(env)
      return @app.call(env) if env.key?(MEASURED)

      exchange = begin_exchange(env)
      return @app.call(env) if exchange.nil?

      enter(exchange)
      recording = @telemetry && @telemetry.start(exchange, @clock, @warnings)
      response = called(env, exchange, recording)
      answered?(response) ? measured(response, exchange, recording) : response
    end

    private

    def begin_exchange(env)
      wall, monotonic = @clock.call
      # Now, because an app may change its env.
      Exchange.new(env, wall, monotonic, stamp_of(env, wall), @clock_offset)
    rescue StandardError => e
      @warnings.warn("a request is served unmeasured", e)
      nil
    end

    # Counts the request among those in progress.
    def enter(exchange)
      counted { exchange.leaves << @metrics.enter } if @metrics
      counted { (leave = @telemetry.enter(exchange)) && exchange.leaves << leave } if @telemetry
    end

    # Counts it among those in progress no longer. Only the first call counts.
    def leave(exchange)
      counted { exchange.leaves.shift.call } until exchange.leaves.empty?
    end

    def counted
      yield
    rescue StandardError => e
      @warnings.warn("the requests in progress are not counted", e)
    end

    # The request is in progress until the response is sent, if the server reports that. A connection of another protocol
    # and a stream of server-sent events last until their client leaves.
    def leave_after_response(exchange, status, headers)
      return if exchange.leaves.empty?

      lasting = status.to_i == 101 || Answer.events?(headers)
      leave(exchange) if lasting || !exchange.after_response { leave(exchange) }
    rescue StandardError => e
      @warnings.warn("the requests in progress are not counted", e)
      leave(exchange)
    end

    def stamp_of(env, wall)
      Stamp.read(env, wall / 1000, @max_age_us, @max_future_us)
    rescue StandardError => e
      @warnings.warn("a request is served without its stamp", e)
      :missing
    end

    # The app's response; an exception, or a throw, ends the recording.
    def called(env, exchange, recording)
      returned = false
      env[MEASURED] = true
      response = recording ? recording.current { @app.call(env) } : @app.call(env)
      returned = answered?(response)
      response
    rescue Exception => e # rubocop:disable Lint/RescueException
      error = e
      raise
    ensure
      env.delete(MEASURED)
      failed(exchange, recording, error) unless returned
    end

    def failed(exchange, recording, error)
      leave(exchange)
      recording.failed(error) if recording
      return if @metrics.nil?

      exchange.route = route_of(exchange.env)
      observe(exchange)
    end

    # A server that hands the connection to the app takes a status below 100 for its sign, and no header beside it.
    def answered?(response)
      return false unless response.respond_to?(:to_ary)

      status = response.to_ary[0]
      status.respond_to?(:to_i) && status.to_i >= 100
    end

    def measured(response, exchange, recording)
      status, headers, body = response
      exchange.service_ns = @clock.call[1] - exchange.start_monotonic_ns
      exchange.status = status.to_i
      exchange.route = route_of(exchange.env)
      answer = @answer.headers(headers, exchange)
      exchange.route ||= Answer.route_of(headers) if recording || @metrics
      # The body is handed on untouched: to_path, close and streaming callables stay the server's business.
      [status, answer, body]
    rescue StandardError => e
      @warnings.warn("a response leaves without its measurements", e)
      response
    ensure
      recording.answered if recording
      observe(exchange) if @metrics
      leave_after_response(exchange, status, headers)
    end

    def observe(exchange)
      @metrics.observe(exchange)
    rescue StandardError => e
      @warnings.warn("a request is not counted in the metrics", e)
    end

    def route_of(env)
      (@route && Route.present(@route.call(env))) || Route.of(env)
    rescue StandardError => e
      @warnings.warn("the route of a request is unknown", e)
      nil
    end

    def microseconds(name, limit)
      valid = limit.is_a?(Numeric) && limit.real? && limit >= 0 && limit.to_f.finite?
      raise ArgumentError, "#{name} must be a number of seconds, zero or more, not #{limit.inspect}" unless valid

      (limit * 1_000_000).round
    end

    def offset(seconds)
      valid = seconds.is_a?(Numeric) && seconds.real? && seconds.to_f.finite?
      raise ArgumentError, "clock_offset must be a number of seconds, not #{seconds.inspect}" unless valid

      seconds.to_f
    end

    def callable(route)
      return route if route.nil? || route.respond_to?(:call)

      raise ArgumentError, "route must respond to call, which #{route.inspect} does not"
    end

    def telemetry_of(telemetry)
      case telemetry
      when true then Telemetry::AUTOMATIC
      when false then nil
      when Telemetry then telemetry
      else raise ArgumentError, "telemetry must be true, false or a Sojourn::Telemetry, not #{telemetry.inspect}"
      end
    end
  end
end
