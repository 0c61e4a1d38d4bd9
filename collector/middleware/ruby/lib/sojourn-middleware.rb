# frozen_string_literal: true

require_relative "sojourn/middleware"
require_relative "sojourn/railtie" if defined?(Rails::Railtie)
