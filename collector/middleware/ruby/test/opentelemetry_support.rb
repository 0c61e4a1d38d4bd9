# frozen_string_literal: true

# OpenTelemetry's SDKs if they are installed, or else the interface of this folder, behind one set of functions.
begin
  require "opentelemetry/sdk"
  require "opentelemetry-metrics-sdk"
rescue LoadError
  require "opentelemetry_interface"
end

module OtelSupport
  REAL = OpenTelemetry.const_defined?(:VERSION)

  module_function

  # Sets providers of tracers and meters, or leaves one unset as an app does that has set none.
  def start(traces: true, metrics: true)
    OpenTelemetry.propagation = OpenTelemetry::Trace::Propagation::TraceContext::TextMapPropagator.new
    @spans = new_exporter
    OpenTelemetry.tracer_provider = traces ? new_tracer_provider : OpenTelemetry::Internal::ProxyTracerProvider.new
    @meters = metrics ? new_meter_provider : OpenTelemetry::Internal::ProxyMeterProvider.new
    OpenTelemetry.meter_provider = @meters
  end

  def new_exporter
    REAL ? OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new : []
  end

  def new_tracer_provider
    return OpenTelemetry::SDK::TracerProvider.new(@spans) unless REAL

    provider = OpenTelemetry::SDK::Trace::TracerProvider.new
    provider.add_span_processor(OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(@spans))
    provider
  end

  def new_meter_provider
    return OpenTelemetry::SDK::MeterProvider.new unless REAL

    provider = OpenTelemetry::SDK::Metrics::MeterProvider.new
    @reader = OpenTelemetry::SDK::Metrics::Export::InMemoryMetricPullExporter.new
    provider.add_metric_reader(@reader)
    provider
  end

  # The finished spans.
  def spans
    REAL ? @spans.finished_spans : @spans.dup
  end

  # [attributes, sum, count] of each time series of the histogram.
  def histogram
    return @meters.values.group_by(&:first).map { |key, all| [key, all.sum(&:last), all.length] } unless REAL

    @reader.pull
    @reader.metric_snapshots.select { |each| each.name == "queueing.delay" }.flat_map(&:data_points).map do |point|
      [point.attributes, point.sum, point.count]
    end
  end

  # Attributes => value of each time series of http.server.active_requests.
  def active
    return @meters.active unless REAL

    @reader.pull
    points = @reader.metric_snapshots.select { |each| each.name == "http.server.active_requests" }.last.data_points
    points.to_h { |point| [point.attributes, point.value] }
  end

  # Calls the block with a current span, as automatic instrumentation around the middleware does.
  def within(span)
    token = OpenTelemetry::Context.attach(OpenTelemetry::Trace.context_with_span(span))
    yield
  ensure
    OpenTelemetry::Context.detach(token)
  end
end
