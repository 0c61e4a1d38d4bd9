# frozen_string_literal: true

module Sojourn
  # The attributes of a span: OpenTelemetry's stable HTTP attributes, and Sojourn's under "queueing.".
  module Semantics
    # The instrumentation scope.
    SCOPE = "sojourn_middleware"

    # The event whose timestamp is the proxy's stamp.
    STAMP_EVENT = "http.proxy.request.started"

    HISTOGRAM = "queueing.delay"

    ACTIVE_REQUESTS = "http.server.active_requests"

    METHODS = %w[GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY].freeze

    module_function

    # "GET /users/:id"; the method alone if the route is unknown, never the raw path.
    def span_name(method, route = nil)
      name = METHODS.include?(method) ? method : "HTTP"
      route ? "#{name} #{text(route)}" : name
    end

    # The method, or "_OTHER": a client can send any text, and no text may create a time series.
    def known_method(method)
      METHODS.include?(method) ? method : "_OTHER"
    end

    # HTTP attributes known at the start of the request, for a sampler.
    def request(env)
      method = env["REQUEST_METHOD"].to_s
      address, port = server(env)
      {
        "http.request.method" => known_method(method),
        "http.request.method_original" => METHODS.include?(method) ? nil : text(method),
        "url.path" => text("#{env["SCRIPT_NAME"]}#{env["PATH_INFO"]}"),
        "url.scheme" => text(env["rack.url_scheme"] || "http"),
        "network.protocol.version" => present(env["SERVER_PROTOCOL"].to_s.rpartition("/").last),
        "server.address" => present(address),
        "server.port" => port
      }.compact
    end

    # HTTP attributes known at the end of the request.
    def response(exchange, error)
      {
        "http.response.status_code" => exchange.status,
        "http.route" => exchange.route && text(exchange.route),
        "error.type" => error_type(exchange, error)
      }.compact
    end

    # Sojourn's own; times in seconds, unknown ones are left out.
    def queueing(exchange)
      delay = exchange.delay_ns && (exchange.delay_ns / 1e9)
      id = present(exchange.env["HTTP_X_REQUEST_ID"])
      {
        "queueing.status" => Stamp.status(exchange.stamp),
        "queueing.clock_offset" => exchange.clock_offset,
        "queueing.worker" => exchange.worker,
        "queueing.delay" => delay && (delay - exchange.clock_offset),
        "queueing.delay.raw" => delay,
        "queueing.service_time" => exchange.service_ns && (exchange.service_ns / 1e9),
        "http.request.header.x-request-id" => id && [id]
      }.compact
    end

    # Attributes of the histogram.
    def dimensions(exchange)
      {
        "http.request.method" => known_method(exchange.env["REQUEST_METHOD"].to_s),
        "http.route" => exchange.route && text(exchange.route),
        "http.response.status_code" => exchange.status
      }.compact
    end

    # Attributes of the number of requests in progress.
    def in_progress(env)
      { "http.request.method" => known_method(env["REQUEST_METHOD"].to_s), "url.scheme" => text(env["rack.url_scheme"] || "http") }
    end

    # The class of the exception, or the status from 500 on; nil without an error.
    def error_type(exchange, error)
      return error.class.to_s if error

      exchange.status.to_s if exchange.status && exchange.status >= 500
    end

    # Host and port of the Host header, or else the address at which the server listens.
    def server(env)
      host = env["HTTP_HOST"].to_s
      return [env["SERVER_NAME"], Integer(env["SERVER_PORT"].to_s, 10, exception: false)] if host.empty?

      name, colon, port = host.rpartition(":")
      return [name.delete("[]"), port.to_i] if colon == ":" && port.match?(/\A[0-9]{1,5}\z/) && !name.end_with?(":")

      [host.delete("[]"), nil]
    end

    def present(value)
      value = text(value)
      value.empty? ? nil : value
    end

    # Servers pass bytes; an attribute is valid UTF-8.
    def text(value)
      value.to_s.dup.force_encoding(Encoding::UTF_8).scrub
    end

    private_class_method :server, :present, :text
  end
end
