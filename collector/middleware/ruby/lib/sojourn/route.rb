# frozen_string_literal: true

module Sojourn
  # The template of a request's route, such as "/users/:id", if the app or its framework provides it.
  module Route
    ENV_KEY = "sojourn.route"

    # Rails ends a template with its optional format.
    RAILS_FORMAT = "(.:format)"
    private_constant :RAILS_FORMAT

    module_function

    # The value of env["sojourn.route"], or else the route that Rails (7.1 and later) or Sinatra matched; nil if unknown.
    # The env is read after the app's call.
    def of(env)
      present(env[ENV_KEY]) || rails(env) || sinatra(env)
    end

    def present(route)
      route = route.to_s
      route.empty? ? nil : route
    end

    # Rails 7.1 stores the template itself, Rails 8.1 the route, from which its request makes the template.
    def rails(env)
      return nil unless env.key?("action_dispatch.route") || env.key?("action_dispatch.route_uri_pattern")

      present(::ActionDispatch::Request.new(env).route_uri_pattern.to_s.delete_suffix(RAILS_FORMAT))
    end

    # Sinatra stores "GET /users/:id".
    def sinatra(env)
      route = env["sinatra.route"]
      route && present(route.to_s.partition(" ").last)
    end

    private_class_method :rails, :sinatra
  end
end
