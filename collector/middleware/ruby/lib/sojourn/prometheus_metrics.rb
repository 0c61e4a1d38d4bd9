# frozen_string_literal: true

require_relative "in_progress"

module Sojourn
  # Histograms of queueing delay and service time, and a gauge of the requests in progress, in a registry of Prometheus's
  # client library (gem prometheus-client, 3.0 and later), which is required only if the option prometheus is set. The
  # registry is exposed by the app.
  class PrometheusMetrics
    QUEUEING_DELAY = "sojourn_queueing_delay_seconds"
    SERVICE_TIME = "sojourn_service_time_seconds"
    NEGATIVE_DELAYS = "sojourn_negative_queueing_delays_total"
    NEGATIVE_SECONDS = "sojourn_negative_queueing_delay_seconds_total"

    HELP = {
      QUEUEING_DELAY => "Time that requests waited for a worker; negative values count in the lowest bucket, " \
                        "and not in the sum.",
      SERVICE_TIME => "Time from the app's start to its response headers.",
      NEGATIVE_DELAYS => "Requests whose queueing delay was negative: the clocks differ, or one changed.",
      NEGATIVE_SECONDS => "Sum of the negative queueing delays, without sign; histogram sum less this is the exact sum."
    }.freeze

    # Upper bounds, s.
    BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0].freeze

    # Routes of a process that have their own series; all others are counted as "other".
    MAX_ROUTES = 100
    OTHER = "other"

    LABELS = %i[service route status_class].freeze
    STATUS_CLASSES = (1..5).to_h { |number| [number, "#{number}xx"] }.freeze
    NAME = /\A[a-zA-Z_:][a-zA-Z0-9_:]*\z/.freeze
    private_constant :LABELS, :STATUS_CLASSES, :NAME

    # The metrics in one registry, for all middlewares that use it, and the routes that have their own series.
    class Registered
      LOCK = Mutex.new
      private_constant :LOCK

      @by_registry = {}.compare_by_identity

      # Yields the one of this registry.
      def self.within(registry)
        LOCK.synchronize { yield(@by_registry[registry] ||= new(registry)) }
      end

      attr_reader :negative_delays, :negative_seconds, :in_progress

      def initialize(registry)
        @registry = registry
        @histograms = {}
        # Replaced as a whole, so that a reading thread needs no lock.
        @routes = {}.freeze
        @negative_delays = counter(NEGATIVE_DELAYS)
        @negative_seconds = counter(NEGATIVE_SECONDS)
        @in_progress = InProgress.new(registry)
      end

      # The histogram of this name; the first call registers it.
      def histogram(name, text)
        @histograms[name] ||= @registry.histogram(name.to_sym, docstring: text, labels: LABELS, buckets: BUCKETS)
      end

      # As in the header X-Route; OTHER beyond MAX_ROUTES, empty if unknown.
      def route_label(route)
        return "" if route.nil?

        @routes[route] || (@routes.length < MAX_ROUTES ? add(route) : OTHER)
      end

      private

      def counter(name)
        @registry.counter(name.to_sym, docstring: HELP[name], labels: [:service])
      end

      def add(route)
        LOCK.synchronize do
          @routes = @routes.merge(route.dup.freeze => Answer.printable(route)).freeze if @routes.length < MAX_ROUTES
          @routes.fetch(route, OTHER)
        end
      end
    end
    private_constant :Registered

    # The metrics that the options of a middleware require; nil if they are off, and, with one warning, if they cannot
    # be registered. Raises ArgumentError for an option of another kind.
    def self.of(prometheus, service:, name:, warnings:)
      service = text_of_service(service)
      name = name_of_metric(name)
      return nil if prometheus == false
      unless prometheus == true || prometheus.respond_to?(:histogram)
        raise ArgumentError, "prometheus must be true, false or a registry, not #{prometheus.inspect}"
      end

      begin
        require_library
        new(prometheus == true ? ::Prometheus::Client.registry : prometheus, service, name)
      rescue LoadError, StandardError => e
        warnings.warn("no metrics are exported", e)
        nil
      end
    end

    # Other gems with the same constants have methods without keywords, which would take these for labels.
    def self.require_library
      require "prometheus/client"
      require "prometheus/client/counter"
      if ::Prometheus::Client::Counter.instance_method(:increment).parameters.include?(%i[key labels])
        require "prometheus/client/version"
        # Before, a metric with preset labels had a store of its own, which is not exported.
        return if ::Prometheus::Client::VERSION.to_i >= 3
      end

      raise LoadError, "the gem prometheus-client 3.0 or later is needed"
    end

    def self.text_of_service(service)
      return service || ENV.fetch("OTEL_SERVICE_NAME", "") if service.nil? || service.is_a?(String)

      raise ArgumentError, "service must be a String, not #{service.inspect}"
    end

    def self.name_of_metric(name)
      valid = name.to_s.match?(NAME) && ![SERVICE_TIME, NEGATIVE_DELAYS, NEGATIVE_SECONDS, InProgress::NAME].include?(name.to_s)
      return name.to_s if valid

      raise ArgumentError, "prometheus_name must be the name of a metric ([a-zA-Z_:][a-zA-Z0-9_:]*), and of no other " \
                           "one of the middleware, not #{name.inspect}"
    end
    private_class_method :require_library, :text_of_service, :name_of_metric

    def initialize(registry, service, name)
      @labels = { service: service.dup.freeze }.freeze
      Registered.within(registry) do |shared|
        @shared = shared
        @delay = shared.histogram(name, HELP[QUEUEING_DELAY])
        @service_time = shared.histogram(SERVICE_TIME, HELP[SERVICE_TIME])
        # The two series exist from now on: PromQL subtracts nothing from a series that does not exist.
        [shared.negative_delays, shared.negative_seconds].each { |counter| counter.increment(by: 0, labels: @labels) }
        shared.in_progress.add(@labels[:service], 0)
      end
      @leave = -> { @shared.in_progress.add(@labels[:service], -1) }
      # By the label of the route and the class of the status, both histograms with these labels preset: the gem checks
      # labels at every other call, which takes longer than the observation. Replaced as a whole, so that a reading thread
      # needs no lock; two threads that add one at the same time can lose one, which is added again.
      @series = {}.freeze
    end

    # Counts one request among those in progress; returns what ends it.
    def enter
      @shared.in_progress.add(@labels[:service], 1)
      @leave
    end

    # Observes one request.
    def observe(exchange)
      key = [@shared.route_label(exchange.route), STATUS_CLASSES.fetch(exchange.status.to_i / 100, "")]
      delay, service_time = @series[key] || add_series(key)
      observe_delay(delay, exchange.delay_ns, exchange.clock_offset)
      service_time.observe(exchange.service_ns / 1e9) if exchange.service_ns
    end

    private

    # A series exists from its first observation on.
    def add_series(key)
      labels = { **@labels, route: key[0], status_class: key[1] }
      pair = [@delay.with_labels(labels), @service_time.with_labels(labels)].freeze
      @series = @series.merge(key.freeze => pair).freeze
      pair
    end

    def observe_delay(series, delay_ns, clock_offset)
      return if delay_ns.nil?

      delay = (delay_ns / 1e9) - clock_offset
      # A sum that decreases would be read as a restart of the process.
      if delay.negative?
        @shared.negative_delays.increment(labels: @labels)
        @shared.negative_seconds.increment(by: -delay, labels: @labels)
        delay = 0.0
      end
      series.observe(delay)
    end
  end
end
