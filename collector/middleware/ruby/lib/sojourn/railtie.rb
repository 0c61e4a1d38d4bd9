# frozen_string_literal: true

require "rails/railtie"
require "active_support/ordered_options"
require_relative "middleware"

module Sojourn
  # Inserts Sojourn::Middleware into the stack of a Rails app. Its options are those of config.sojourn, which has one
  # more: enabled, true unless it is set to false.
  class Railtie < ::Rails::Railtie
    config.sojourn = ::ActiveSupport::OrderedOptions.new

    # After config/application.rb, config/environments and config/initializers, which set the options.
    initializer "sojourn.middleware", after: :load_config_initializers do |app|
      options = { logger: ::Rails.logger }.merge(app.config.sojourn.to_h)
      unless options.delete(:enabled) == false
        # First of all, so that all later work is service time. Automatic instrumentation by OpenTelemetry has to be
        # around it, so that its span gets the attributes: the stack of railties is built before the app's own.
        instrumented = defined?(::OpenTelemetry::Instrumentation::Rack)
        stack = instrumented ? app.config.app_middleware : app.config.middleware
        stack.insert_before(0, Middleware, **options)
      end
    end
  end
end
