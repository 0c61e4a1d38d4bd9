# frozen_string_literal: true

module Sojourn
  # The response headers with the measurements added.
  class Answer
    DELAY = "X-Queueing-Delay"
    SERVICE = "X-Service-Time"
    WORKER = "X-Worker"
    ROUTE = "X-Route"
    SERVER_TIMING = "Server-Timing"

    # Names in lower case of the app's own headers that are replaced. An X-Route of the app remains if no other route
    # is known.
    MEASURED = [DELAY, SERVICE, WORKER].map { |name| name.downcase.freeze }.freeze
    WITH_ROUTE = [*MEASURED, ROUTE.downcase.freeze].freeze
    # Most other names differ in length, which is the cheapest check.
    LENGTHS = WITH_ROUTE.map(&:length).freeze
    private_constant :MEASURED, :WITH_ROUTE, :LENGTHS

    def initialize(server_timing:, always_answer:)
      @server_timing = server_timing
      @always_answer = always_answer
      # Rack 3 requires header names in lower case; before it, the usual case was the custom.
      lower_case = defined?(::Rack.release) && ::Rack.release.to_i >= 3
      names = [DELAY, SERVICE, WORKER, ROUTE, SERVER_TIMING]
      @delay, @service, @worker, @route, @timing = lower_case ? names.map { |name| name.downcase.freeze } : names
    end

    # A copy, because apps share one Hash of headers between requests, or freeze it. Without a stamp there is no proxy
    # that removes the measurements before the client, so they are not added.
    def headers(headers, exchange)
      copy = headers.is_a?(Hash) ? headers.dup : headers.to_h
      add_measurements(copy, exchange) if @always_answer || exchange.stamp != :missing
      add_server_timing(copy, exchange.delay_ns, exchange.service_ns) if @server_timing
      copy
    end

    # The value of the X-Route that the app has set; nil without one.
    def self.route_of(headers)
      value = value_of(headers, ROUTE)
      value && Route.present(value.is_a?(Array) ? value.last : value)
    end

    # Whether the response is a stream of server-sent events.
    def self.events?(headers)
      value_of(headers, "content-type").to_s.match?(%r{\A\s*text/event-stream\s*(;|\z)}i)
    end

    # Most other names differ in length, which is the cheapest check.
    def self.value_of(headers, name)
      headers.each { |key, value| return value if key.to_s.length == name.length && key.to_s.casecmp?(name) }
      nil
    end
    private_class_method :value_of

    # A route as a header can carry it: a control character or a letter outside ASCII would break the header.
    def self.printable(route)
      route.b.gsub(/[^\x20-\x7e]/n) { |byte| format("%%%02X", byte.ord) }
    end

    private

    def add_measurements(copy, exchange)
      route = exchange.route
      remove(copy, route ? WITH_ROUTE : MEASURED)
      delay = exchange.delay_ns
      copy[@delay] = seconds(delay) if delay
      copy[@service] = seconds(exchange.service_ns)
      copy[@worker] = exchange.worker
      copy[@route] = Answer.printable(route) if route
    end

    def remove(headers, replaced)
      headers.keys.each do |name|
        headers.delete(name) if LENGTHS.include?(name.length) && replaced.include?(name.to_s.downcase)
      end
    end

    def seconds(nanoseconds)
      format("%.6f", nanoseconds / 1e9)
    end

    # The app's own value remains in front: one String in Rack 2, which can hold several lines; a String or an Array in
    # Rack 3. A negative delay is not a duration, so it is left out.
    def add_server_timing(headers, delay, service)
      value = format("app;dur=%.3f", service / 1e6)
      value = format("queue;dur=%.3f, %s", delay / 1e6, value) if delay && !delay.negative?
      name = headers.keys.find { |key| key.to_s.casecmp?(SERVER_TIMING) } || @timing
      own = headers[name]
      headers[name] = own.is_a?(Array) ? [*own, value] : [own, value].compact.join(", ")
    end
  end
end
