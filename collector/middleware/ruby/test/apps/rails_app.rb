# frozen_string_literal: true

# A Rails app with the gem, in a process of its own. Prints the stack, and the responses to some requests, as JSON. The
# first argument holds config.sojourn, the second one names what is loaded beside Rails.
require "json"
require "logger"
require "rails"
require "action_controller/railtie"
require "sojourn-middleware"

# Automatic instrumentation, of which the Railtie only sees the name and the place that it takes.
if ARGV[1] == "instrumented"
  module OpenTelemetry
    module Instrumentation
      module Rack
        # Its middleware.
        class Tracing
          def initialize(app)
            @app = app
          end

          def call(env)
            @app.call(env)
          end
        end

        # As the Railtie of OpenTelemetry's instrumentation.
        class Railtie < ::Rails::Railtie
          config.before_initialize { |app| app.middleware.insert_before(0, Tracing) }
        end
      end
    end
  end
end

# Inserted first by the app itself.
class Other
  def initialize(app)
    @app = app
  end

  def call(env)
    env["PATH_INFO"] == "/other" ? [204, {}, []] : @app.call(env)
  end
end

LOG = StringIO.new

class ShopApp < Rails::Application
  config.eager_load = false
  config.consider_all_requests_local = false
  config.secret_key_base = "0" * 64
  config.logger = Logger.new(LOG)
  config.hosts.clear if config.respond_to?(:hosts)
  config.middleware.insert_before(0, Other)
end

class UsersController < ActionController::Base
  def show
    response.headers["Server-Timing"] = "db;dur=1"
    render(plain: "user #{params[:id]}")
  end

  def own
    request.env["sojourn.route"] = "/users/own/{id}"
    head(:ok)
  end

  def fail
    raise KeyError, "on request"
  end
end

begin
  # As a file in config/initializers does it.
  ShopApp.initializer("options", before: :load_config_initializers) do
    JSON.parse(ARGV[0]).each { |name, value| config.sojourn[name.to_sym] = value }
    config.sojourn.route = ->(_env) { raise IOError, "of the option" } if ARGV[1] == "failing"
  end
  ShopApp.initialize!
rescue ArgumentError => e
  puts JSON.generate("error" => e.message)
  exit
end

ShopApp.routes.draw do
  get "/users/:id", to: "users#show"
  get "/own/:id", to: "users#own"
  get "/fail", to: "users#fail"
end

responses = %w[/users/7 /own/7 /fail /nowhere /other].map do |path|
  status, headers, body = ShopApp.call(Rack::MockRequest.env_for(path, "HTTP_X_REQUEST_START" => "t=#{Time.now.to_f}"))
  body.close if body.respond_to?(:close)
  [path, [status, headers.to_h.transform_keys(&:downcase)]]
end
if defined?(Prometheus::Client)
  require "prometheus/client/formats/text"
  metrics = Prometheus::Client::Formats::Text.marshal(Prometheus::Client.registry).lines(chomp: true)
end
puts JSON.generate(
  "metrics" => metrics, "version" => Rails.version, "stack" => ShopApp.middleware.map { |each| each.klass.name },
  "responses" => responses.to_h, "log" => LOG.string
)
