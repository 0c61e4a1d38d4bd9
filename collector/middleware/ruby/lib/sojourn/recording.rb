# frozen_string_literal: true

require_relative "semantics"

module Sojourn
  # What OpenTelemetry records of one request: the histogram's value, and the attributes of the span that the request
  # has (nil: none); a subclass starts one. No method raises but what the block of #current raises.
  class Recording
    def initialize(exchange, histogram, warnings, span = nil)
      @exchange = exchange
      @histogram = histogram
      @warnings = warnings
      @span = span
    end

    # Calls the block, the app, with the span of the request as the current one.
    def current
      yield
    end

    # Ends the request: the app has returned status and headers.
    def answered
      guarded { record }
    end

    # Ends the request: the app has raised the error, or has returned no response (nil).
    def failed(_error)
      guarded { record }
    end

    private

    def record
      annotate(@span) unless @span.nil?
      delay = @exchange.delay_ns
      return if @histogram.nil? || delay.nil?

      # A negative delay is a disagreement of two clocks; the buckets of a histogram have no place for it.
      corrected = (delay / 1e9) - @exchange.clock_offset
      @histogram.record(corrected, attributes: Semantics.dimensions(@exchange)) unless corrected.negative?
    end

    def annotate(span)
      return unless span.recording?

      stamp = @exchange.stamp
      span.add_event(Semantics::STAMP_EVENT, timestamp: time(stamp * 1000)) if stamp.is_a?(Integer)
      span.add_attributes(Semantics.queueing(@exchange))
    end

    def time(nanoseconds)
      seconds, rest = nanoseconds.divmod(1_000_000_000)
      Time.at(seconds, rest, :nsec)
    end

    def guarded
      yield
    rescue StandardError => e
      @warnings.warn("a request is not recorded", e)
    end
  end

  # A SERVER span of its own. It lasts until the response has been sent, if the server reports that, or else until the
  # app returns.
  class OwnRecording < Recording
    # Reads the headers of a propagator from a Rack env.
    module EnvGetter
      module_function

      def get(env, name)
        env["HTTP_#{name.upcase.tr("-", "_")}"]
      end

      def keys(env)
        env.keys.grep(/\AHTTP_/) { |key| key.delete_prefix("HTTP_").downcase.tr("_", "-") }
      end
    end
    private_constant :EnvGetter

    def initialize(exchange, histogram, warnings, tracer, clock)
      super(exchange, histogram, warnings)
      @clock = clock
      env = exchange.env
      parent = ::OpenTelemetry.propagation.extract(env, getter: EnvGetter)
      @span = tracer.start_span(
        Semantics.span_name(env["REQUEST_METHOD"]), with_parent: parent, kind: :server,
        attributes: Semantics.request(env), start_timestamp: time(exchange.start_wall_ns)
      )
      @context = ::OpenTelemetry::Trace.context_with_span(@span, parent_context: parent)
    end

    def current
      guarded { @token = ::OpenTelemetry::Context.attach(@context) }
      yield
    ensure
      guarded { detach }
    end

    def answered
      super
      guarded { finish(nil) unless @exchange.after_response { |error| finish(error) } }
    end

    def failed(error)
      super
      finish(error)
    end

    private

    # Instrumentation inside this middleware leaves its own context attached until the body is closed; it then has to
    # be detached first, and this one after the response.
    def detach
      return if @token.nil? || !::OpenTelemetry::Context.current.equal?(@context)

      ::OpenTelemetry::Context.detach(@token)
      @token = nil
    end

    def finish(error)
      guarded do
        detach
        if @span.recording?
          @span.name = Semantics.span_name(@exchange.env["REQUEST_METHOD"], @exchange.route)
          @span.add_attributes(Semantics.response(@exchange, error))
          mark(error)
        end
        # By the monotonic clock, so that a step of the wall clock cannot change the duration.
        elapsed = @clock.call[1] - @exchange.start_monotonic_ns
        @span.finish(end_timestamp: time(@exchange.start_wall_ns + elapsed))
      end
    end

    def mark(error)
      @span.record_exception(error) if error
      return if Semantics.error_type(@exchange, error).nil?

      @span.status = ::OpenTelemetry::Trace::Status.error(error ? "#{error.class}: #{error.message}" : "")
    end
  end
end
