# frozen_string_literal: true

module Sojourn
  # Reports failures of the measurement, each kind once, to a logger (#warn) or to standard error.
  class Warnings
    def initialize(logger)
      @logger = logger
      @kinds = {}
    end

    def warn(kind, error)
      return if @kinds.key?(kind)

      @kinds[kind] = true
      message = "sojourn: #{kind}: #{error.class}: #{error.message}; the same again will not be logged"
      @logger ? @logger.warn(message) : Kernel.warn(message)
    end
  end
end
