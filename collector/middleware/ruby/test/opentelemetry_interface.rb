# frozen_string_literal: true

# The part of OpenTelemetry's API that the gem calls, in the smallest form that records: the names, arguments and
# results of opentelemetry-api, opentelemetry-metrics-api and their SDKs' in-memory exporters.
module OpenTelemetry
  class << self
    attr_accessor :tracer_provider, :meter_provider, :propagation
  end

  # An immutable set of values; the current one belongs to the fiber.
  class Context
    KEY = :sojourn_test_context

    def self.stack
      Thread.current[KEY] ||= []
    end

    def self.current
      stack.last || ROOT
    end

    def self.attach(context)
      stack.push(context).length
    end

    def self.detach(token)
      raise "contexts are detached out of order" unless token == stack.length

      stack.pop
    end

    def initialize(values)
      @values = values.freeze
    end

    def value(key)
      @values[key]
    end

    def set_value(key, value)
      Context.new(@values.merge(key => value))
    end

    ROOT = new({})
  end

  module Trace
    SpanContext = Struct.new(:trace_id, :span_id, :remote, :valid, keyword_init: true) do
      alias_method :valid?, :valid
      alias_method :remote?, :remote
    end
    Status = Struct.new(:code, :description) do
      self::OK = 0
      self::ERROR = 2

      def self.error(description)
        new(self::ERROR, description)
      end
    end

    # Records nothing.
    class Span
      attr_reader :context

      def initialize(context)
        @context = context
      end

      def recording?
        false
      end

      INVALID = new(SpanContext.new(remote: false, valid: false))
    end

    def self.current_span(context = Context.current)
      context.value(:span) || Span::INVALID
    end

    def self.context_with_span(span, parent_context: Context.current)
      parent_context.set_value(:span, span)
    end

    def self.non_recording_span(context)
      Span.new(context)
    end

    module Propagation
      module TraceContext
        # Reads traceparent.
        class TextMapPropagator
          # Reads from a Hash of headers.
          module PLAIN
            def self.get(carrier, name)
              carrier[name]
            end
          end

          def extract(carrier, context: Context.current, getter: PLAIN)
            _, trace, span = getter.get(carrier, "traceparent").to_s.split("-")
            return context if span.nil?

            remote = SpanContext.new(trace_id: [trace].pack("H*"), span_id: [span].pack("H*"), remote: true, valid: true)
            Trace.context_with_span(Span.new(remote), parent_context: context)
          end
        end
      end
    end
  end

  module Internal
    # Before an app has set a provider.
    ProxyTracerProvider = Class.new
    ProxyMeterProvider = Class.new
  end

  module SDK
    Event = Struct.new(:name, :timestamp)
    Scope = Struct.new(:name, :version)

    # Records everything; finished ones are in the exporter's list.
    class Span < Trace::Span
      attr_reader :kind, :attributes, :events, :start_timestamp, :end_timestamp, :parent_span_id, :instrumentation_scope
      attr_accessor :name, :status

      def initialize(name, parent, kind, attributes, start, scope, finished)
        local = parent.valid?
        super(Trace::SpanContext.new(trace_id: local ? parent.trace_id : Random.bytes(16), span_id: Random.bytes(8),
                                     remote: false, valid: true))
        @name = name
        @parent_span_id = local ? parent.span_id : "\0" * 8
        @kind = kind || :internal
        @attributes = attributes || {}
        @events = []
        @start_timestamp = nanoseconds(start)
        @instrumentation_scope = scope
        @finished = finished
      end

      def recording?
        @end_timestamp.nil?
      end

      def add_attributes(attributes)
        @attributes = @attributes.merge(attributes)
      end

      def add_event(name, timestamp: nil)
        @events << Event.new(name, nanoseconds(timestamp))
      end

      def record_exception(error)
        add_event("exception") if error
      end

      def finish(end_timestamp: nil)
        raise "a span is finished twice" if @end_timestamp

        @end_timestamp = nanoseconds(end_timestamp)
        @finished << self
      end

      def trace_id
        context.trace_id
      end

      def span_id
        context.span_id
      end

      private

      def nanoseconds(time)
        time ||= Time.now
        (time.to_i * 1_000_000_000) + time.nsec
      end
    end

    # Gives each span to the list when it is finished.
    class TracerProvider
      def initialize(finished)
        @finished = finished
      end

      def tracer(name, version)
        Tracer.new(Scope.new(name, version), @finished)
      end
    end

    Tracer = Struct.new(:scope, :finished) do
      def start_span(name, with_parent: Context.current, attributes: nil, start_timestamp: nil, kind: nil)
        Span.new(name, Trace.current_span(with_parent).context, kind, attributes, start_timestamp, scope, finished)
      end
    end

    # Refuses to create an instrument twice, and keeps all values.
    class MeterProvider
      attr_reader :values, :active

      def initialize
        @names = []
        @values = []
        @active = Hash.new(0)
      end

      def meter(_name, version:)
        raise ArgumentError, "a meter has a version" if version.empty?

        self
      end

      def create_up_down_counter(name, unit:, description:)
        create_histogram(name, unit: unit, description: description)
      end

      def add(value, attributes:)
        @active[attributes] += value
      end

      def create_histogram(name, unit:, description:)
        raise "#{name} exists already" if @names.include?(name)
        raise ArgumentError, "an instrument has a unit and a description" if [unit, description].any?(&:empty?)

        @names << name
        self
      end

      def record(value, attributes:)
        @values << [attributes, value]
      end
    end
  end

  self.tracer_provider = Internal::ProxyTracerProvider.new
  self.meter_provider = Internal::ProxyMeterProvider.new
end
