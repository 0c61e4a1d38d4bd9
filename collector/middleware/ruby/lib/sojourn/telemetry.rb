# frozen_string_literal: true

require_relative "recording"
require_relative "semantics"

module Sojourn
  # Records each request with OpenTelemetry, if the app has loaded its API (gem opentelemetry-api) and set a provider.
  # Nothing of OpenTelemetry is required by this gem.
  #
  # A request that has a span already, from automatic instrumentation around this middleware, gets its attributes on
  # that span; otherwise the request gets a SERVER span. The histogram needs the metrics API
  # (gem opentelemetry-metrics-api) as well.
  class Telemetry
    # Without a provider, the global ones are used as soon as the app has set them. With a tracer_provider, a
    # meter_provider or both, exactly those are used.
    def initialize(tracer_provider: nil, meter_provider: nil)
      @automatic = tracer_provider.nil? && meter_provider.nil?
      @tracer_provider = tracer_provider
      @meter_provider = meter_provider
      # [provider, tracer], [provider, histogram], [provider, up-down counter]: replaced as a whole, so that threads need no lock.
      @tracer = @histogram = @in_progress = nil
    end

    # The default, one for all middlewares of a process: a meter creates an instrument once.
    AUTOMATIC = new

    # The Sojourn::Recording of one request; nil if nothing is recorded.
    def start(exchange, clock, warnings)
      return nil unless defined?(::OpenTelemetry::Trace)

      instrument = histogram
      span = ::OpenTelemetry::Trace.current_span
      if span.context.valid? && !span.context.remote?
        Recording.new(exchange, instrument, warnings, span)
      elsif (own = tracer)
        OwnRecording.new(exchange, instrument, warnings, own, clock)
      elsif instrument
        Recording.new(exchange, instrument, warnings)
      end
    rescue StandardError => e
      warnings.warn("a request is not recorded", e)
      nil
    end

    # Counts one request among those in progress; returns what ends it, or nil if nothing counts it.
    def enter(exchange)
      return nil unless defined?(::OpenTelemetry::Trace)

      counter = in_progress
      return nil if counter.nil?

      attributes = Semantics.in_progress(exchange.env)
      counter.add(1, attributes: attributes)
      -> { counter.add(-1, attributes: attributes) }
    end

    private

    def tracer
      provider = @automatic ? global(:tracer_provider, :ProxyTracerProvider) : @tracer_provider
      return nil if provider.nil?

      known, tracer = @tracer
      return tracer if known.equal?(provider)

      tracer = provider.tracer(Semantics::SCOPE, VERSION)
      @tracer = [provider, tracer].freeze
      tracer
    end

    def meter_provider
      @automatic ? global(:meter_provider, :ProxyMeterProvider) : @meter_provider
    end

    def in_progress
      provider = meter_provider
      return nil if provider.nil?

      known, counter = @in_progress
      return counter if known.equal?(provider)

      counter = provider.meter(Semantics::SCOPE, version: VERSION).create_up_down_counter(
        Semantics::ACTIVE_REQUESTS, unit: "{request}", description: "Number of active HTTP server requests"
      )
      @in_progress = [provider, counter].freeze
      counter
    end

    def histogram
      provider = meter_provider
      return nil if provider.nil?

      known, histogram = @histogram
      return histogram if known.equal?(provider)

      histogram = provider.meter(Semantics::SCOPE, version: VERSION).create_histogram(
        Semantics::HISTOGRAM, unit: "s", description: "Time from the proxy's stamp to the start of the app"
      )
      @histogram = [provider, histogram].freeze
      histogram
    end

    # The provider that the app has set. Until then the API answers with a proxy.
    def global(name, proxy)
      return nil unless ::OpenTelemetry.respond_to?(name)

      provider = ::OpenTelemetry.public_send(name)
      unset = ::OpenTelemetry::Internal.const_defined?(proxy) &&
              provider.instance_of?(::OpenTelemetry::Internal.const_get(proxy))
      unset ? nil : provider
    end
  end
end
