# frozen_string_literal: true

module Sojourn
  # Reads the instant at which the proxy sent the request. The prefix t= says nothing about the unit, so the number of
  # digits decides, strictly; a value that does not fit is refused with a reason.
  module Stamp
    HEADERS = %w[X-Request-Start X-Queue-Start].freeze
    ENV_KEYS = HEADERS.map { |name| "HTTP_#{name.upcase.tr("-", "_")}".freeze }.freeze

    NUMBER = /\A[ \t]*(?:t=)?([0-9]+)(?:\.([0-9]+))?[ \t]*\z/n.freeze
    BLANK = /\A[ \t]*\z/n.freeze

    # Digits of the integer part => [most digits allowed in the fraction, decimal places down to microseconds].
    UNITS = { 10 => [9, 6], 13 => [6, 3], 16 => [0, 0], 19 => [0, -3] }.freeze

    private_constant :NUMBER, :BLANK, :UNITS

    module_function

    # Integer microseconds since the Unix epoch, floored; or :missing, :list, :not_a_number, :unit.
    def parse(value)
      # Bytes: a header can hold what is not valid in any encoding, and must be refused, not raise.
      value = value.b unless value.ascii_only?
      match = NUMBER.match(value)
      return reason(value) if match.nil?

      whole = match[1]
      fraction = match[2] || ""
      most, places = UNITS[whole.length]
      return :unit if most.nil? || whole.start_with?("0") || fraction.length > most

      places.negative? ? whole[0...places].to_i : (whole + fraction[0, places].ljust(places, "0")).to_i
    end

    # The stamp of the first header that is neither absent nor blank, in microseconds, or the reason why that one was
    # refused: :missing, :list, :not_a_number, :unit, :future, :stale. A later header never replaces a refused one:
    # whatever the proxy does not overwrite, a client can send. Limits in microseconds; a stamp exactly at a limit is
    # valid. Servers join repeated headers with a comma.
    def read(env, now_us, max_age_us, max_future_us)
      stamp = :missing
      ENV_KEYS.each do |key|
        value = env[key]
        next if value.nil?

        stamp = parse(value)
        break unless stamp == :missing
      end
      return stamp unless stamp.is_a?(Integer)
      return :future if stamp > now_us + max_future_us

      stamp < now_us - max_age_us ? :stale : stamp
    end

    # Why the value is no number.
    def reason(value)
      return :missing if BLANK.match?(value)

      # A proxy that appends instead of replacing joins two stamps; reading either one would be a guess.
      value.include?(",") ? :list : :not_a_number
    end

    # The value of the span attribute queueing.status: ok, missing, unparsable, future or stale.
    def status(stamp)
      case stamp
      when Integer then "ok"
      when :missing, :future, :stale then stamp.to_s
      else "unparsable"
      end
    end

    private_class_method :reason
  end
end
