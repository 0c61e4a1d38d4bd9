# frozen_string_literal: true

# A Sinatra app with the gem, in a process of its own. Prints the routes of some responses as JSON.
require "json"
require "rack"
require "sinatra/base"
require "sojourn-middleware"

class Shop < Sinatra::Base
  use Sojourn::Middleware
  set :protection, false

  get("/users/:id") { "user" }
  get("/") { "root" }
end

routes = %w[/users/7 / /nowhere].map do |path|
  [path, Rack::MockRequest.new(Shop).get(path, "HTTP_X_REQUEST_START" => Time.now.to_f.to_s)["X-Route"]]
end
puts JSON.generate(routes.to_h)
