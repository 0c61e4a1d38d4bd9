# The app of the tests under unicorn and Puma: the path says what it does.
require "sojourn-middleware"

SHARED = { "Content-Type" => "text/plain", "x-worker" => "the app's own" }.freeze

# Yields its parts one by one, late, as a lazy Rack body does.
class Lazy
  def each
    sleep 1.0
    yield "one "
    yield "two"
  end
end

use Rack::Lint
use Sojourn::Middleware, server_timing: true
use Rack::Lint
use Rack::Head

run(lambda do |env|
  case env["PATH_INFO"]
  when "/sleep"
    sleep 0.15
    [200, SHARED, ["slept"]]
  when "/users"
    env["sojourn.route"] = "/users/:id"
    [200, SHARED, ["user"]]
  when "/lazy"
    [200, SHARED, Lazy.new]
  when "/error"
    raise KeyError, "on request"
  when "/empty"
    [204, {}, []]
  else
    [200, SHARED, ["hello"]]
  end
end)
