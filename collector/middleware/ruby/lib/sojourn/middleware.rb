# frozen_string_literal: true

# Rack middleware that answers with the request's queueing delay and service time. Works with Rack 2 and Rack 3,
# needs no gem. In config.ru, before everything else:
#
#     require "sojourn-middleware"
#     use Sojourn::Middleware
#
# Queueing delay: from the proxy's stamp to the call of this middleware. Service time: from that call until the app
# returns its status and headers; a body produced lazily by `each` or by a callable comes after that.
module Sojourn
  # Reads the instant at which the proxy sent the request. The prefix t= says nothing about the unit, so the number of
  # digits decides, strictly; a value that does not fit is refused with a reason.
  module Stamp
    HEADERS = %w[X-Request-Start X-Queue-Start].freeze
    ENV_KEYS = HEADERS.map { |name| "HTTP_#{name.upcase.tr("-", "_")}" }.freeze

    NUMBER = /\A(?:t=)?([0-9]+)(?:\.([0-9]+))?\z/n.freeze

    # Digits of the integer part => [most digits allowed in the fraction, decimal places down to microseconds].
    UNITS = { 10 => [9, 6], 13 => [6, 3], 16 => [0, 0], 19 => [0, -3] }.freeze

    module_function

    # Integer microseconds since the Unix epoch, floored; or :missing, :list, :not_a_number, :unit.
    def parse(value)
      # Bytes: a header can hold what is not valid in any encoding, and must be refused, not raise.
      value = value.b[/[^ \t].*[^ \t]|[^ \t]/mn]
      return :missing if value.nil?
      # A proxy that appends instead of replacing joins two stamps; reading either one would be a guess.
      return :list if value.include?(",")

      match = NUMBER.match(value)
      return :not_a_number if match.nil?

      whole = match[1]
      fraction = match[2] || ""
      most, places = UNITS[whole.length]
      return :unit if most.nil? || whole.start_with?("0") || fraction.length > most

      places.negative? ? whole[0...places].to_i : (whole + fraction[0, places].ljust(places, "0")).to_i
    end

    # The stamp of the first header that is neither absent nor blank, in microseconds, or the reason why that one was
    # refused. A later header never replaces a refused one: whatever the proxy does not overwrite, a client can send.
    # Limits in microseconds; a stamp exactly at a limit is valid. Servers join repeated headers with a comma.
    def read(env, now_us, max_age_us, max_future_us)
      stamp = :missing
      ENV_KEYS.each do |key|
        stamp = parse(env[key] || "")
        break if stamp != :missing
      end
      return stamp unless stamp.is_a?(Integer)
      return :future if stamp > now_us + max_future_us

      stamp < now_us - max_age_us ? :stale : stamp
    end
  end

  # Numbers 1, 2, 3, … for the threads of this process; a new thread gets the smallest that no living thread holds.
  class ThreadNumbers
    def initialize
      @lock = Mutex.new
      @pid = nil
      @threads = []
    end

    def mine
      @lock.synchronize do
        # A forked child has one thread, whatever the parent had.
        if @pid != Process.pid
          @pid = Process.pid
          @threads = []
        end
        thread = Thread.current
        index = @threads.index(thread) || @threads.index { |other| !other.alive? } || @threads.length
        @threads[index] = thread
        index + 1
      end
    end
  end

  THREADS = ThreadNumbers.new
  private_constant :THREADS

  # Options, in seconds: max_age (3600) and max_future (10) bound how far a stamp may lie before and after now. clock
  # returns [wall clock, monotonic clock] in nanoseconds and is there to be replaced in tests.
  class Middleware
    ANSWERS = %w[X-Queueing-Delay X-Service-Time X-Worker].freeze
    ROUTE = "X-Route"

    CLOCK = lambda do
      [Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond),
       Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)]
    end

    def initialize(app, max_age: 3600, max_future: 10, clock: CLOCK)
      @app = app
      @max_age_us = microseconds("max_age", max_age)
      @max_future_us = microseconds("max_future", max_future)
      @clock = clock
      # Rack 3 wants header names in lower case; before it, the usual case was the custom.
      @lower_case = defined?(::Rack.release) && ::Rack.release.to_i >= 3
    end

    def call(env)
      wall, monotonic = @clock.call
      stamp = stamp_of(env, wall) # now, because an app may change its env
      response = @app.call(env)
      return response unless response.respond_to?(:to_ary)

      begin
        service = @clock.call[1] - monotonic
        status, headers, body = response
        # The body is handed on untouched: to_path, close and streaming callables stay the server's business.
        [status, answered(env, headers, delay(wall, stamp), service), body]
      rescue StandardError => e
        warn("sojourn: an answer leaves without its measurements: #{e.class}: #{e.message}")
        response
      end
    end

    private

    def stamp_of(env, wall)
      Stamp.read(env, wall / 1000, @max_age_us, @max_future_us)
    rescue StandardError => e
      warn("sojourn: a request is served without its stamp: #{e.class}: #{e.message}")
      :missing
    end

    # Nanoseconds, negative when the two clocks disagree; nil without a valid stamp.
    def delay(wall, stamp)
      stamp.is_a?(Integer) ? wall - (stamp * 1000) : nil
    end

    # A copy, because apps share one Hash of headers between requests, or freeze it.
    def answered(env, headers, delay, service)
      route = env["sojourn.route"]
      replaced = (route ? ANSWERS + [ROUTE] : ANSWERS).map(&:downcase)
      copy = headers.is_a?(Hash) ? headers.dup : headers.to_h
      copy.keys.each { |name| copy.delete(name) if replaced.include?(name.to_s.downcase) }

      set(copy, "X-Queueing-Delay", seconds(delay)) if delay
      set(copy, "X-Service-Time", seconds(service))
      set(copy, "X-Worker", worker(env))
      set(copy, ROUTE, printable(route.to_s)) if route
      copy
    end

    def set(headers, name, value)
      headers[@lower_case ? name.downcase : name] = value
    end

    def worker(env)
      env["rack.multithread"] ? "#{Process.pid}.#{THREADS.mine}" : Process.pid.to_s
    end

    def seconds(nanoseconds)
      format("%.6f", nanoseconds / 1e9)
    end

    # A control character or a letter outside ASCII would break the header.
    def printable(route)
      route.b.gsub(/[^\x20-\x7e]/n) { |byte| format("%%%02X", byte.ord) }
    end

    def microseconds(name, limit)
      valid = limit.is_a?(Numeric) && limit.real? && limit >= 0 && limit.to_f.finite?
      raise ArgumentError, "#{name} must be a number of seconds, zero or more, not #{limit.inspect}" unless valid

      (limit * 1_000_000).round
    end
  end
end
