# What Rack 3 asks for, with only its version number: header names in lower case, and the app's own ones replaced.
require "json"
module Rack
  def self.release
    "3.1.0"
  end
end
require_relative "../../../collector/middleware/ruby/lib/sojourn-middleware"

app = ->(_) { [200, { "x-worker" => "the app's", "content-type" => "text/plain" }, ["x"]] }
stamp = format("t=%.3f", Process.clock_gettime(Process::CLOCK_REALTIME) - 2)
puts JSON.generate(Sojourn::Middleware.new(app).call({ "HTTP_X_REQUEST_START" => stamp })[1])
