# frozen_string_literal: true

module Sojourn
  # One request and its measurements. Times in nanoseconds, on two clocks: the stamp comes from another machine and is
  # compared with the wall clock; the service time is taken from the monotonic clock.
  class Exchange
    # start_wall_ns since the Unix epoch; stamp as Sojourn::Stamp.read returns it; clock_offset in seconds, by which
    # this machine's clock is ahead of the proxy's.
    attr_reader :env, :start_wall_ns, :start_monotonic_ns, :stamp, :worker, :clock_offset
    # The template, or nil; an Integer, or nil before the app has returned.
    attr_accessor :route, :status
    # From the call of the app to its return, nil before.
    attr_accessor :service_ns

    def initialize(env, wall_ns, monotonic_ns, stamp, clock_offset)
      @env = env
      @start_wall_ns = wall_ns
      @start_monotonic_ns = monotonic_ns
      @stamp = stamp
      @clock_offset = clock_offset
      @worker = Worker.name(env)
    end

    # What is to be called when the request is no longer in progress.
    def leaves
      @leaves ||= []
    end

    # Calls the block after the response, once, in this thread or in another one; false if the server does not report it
    # (rack.response_finished of Rack 3, rack.after_reply of Puma and unicorn). The block gets the error of the body, or nil.
    def after_response
      if (callbacks = @env["rack.response_finished"]).is_a?(Array)
        callbacks << ->(_env, _status, _headers, error) { yield error }
      elsif (callbacks = @env["rack.after_reply"]).is_a?(Array)
        callbacks << -> { yield nil }
      else
        return false
      end
      true
    end

    # Negative if the two clocks disagree; nil without a valid stamp.
    def delay_ns
      @stamp.is_a?(Integer) ? @start_wall_ns - (@stamp * 1000) : nil
    end
  end
end
