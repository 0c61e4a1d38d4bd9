# The lab's app for unicorn and Puma: the same as app.py, behind the Rack middleware.
#
#   /sleep/<seconds>?bytes=N&stream=SECONDS&after=SECONDS&status=N&route=/NAME     holds the worker that long
#   /ready                                               outside the middleware
#   /_raindrops                                          what raindrops counts, where the gem is there
#
# after=SECONDS is work in rack.after_reply. Where LAB_WORKER_LOG names a file, each request has a line in it, in the form
# of worker_log.py.
#
# The lab puts lib/ of the middleware's gem on the load path (-I).

require "json"
require "sojourn-middleware"
require "rack/utils"
begin
  require "raindrops"
rescue LoadError
  # Then there is no /_raindrops; everything else is the same.
end

PIECES = 4
LONGEST = 86_400.0
LARGEST = 1 << 30
SLOWDOWN = Float(ENV.fetch("LAB_SLOWDOWN", "1"))

# Sends a body in four pieces over some seconds, while the worker is busy.
class Streamed
  def initialize(body, seconds)
    @body = body
    @seconds = seconds
  end

  def each
    step = [(@body.bytesize.to_f / PIECES).ceil, 1].max
    0.step(@body.bytesize - 1, step) do |start|
      sleep(@seconds / (PIECES - 1)) if start.positive?
      yield @body.byteslice(start, step)
    end
  end
end

# Writes when each request held its worker; the last call of rack.after_reply is its own.
class WorkerLog
  # Tells when a body has been sent.
  Sent = Struct.new(:body, :line) do
    def each(&block)
      body.each(&block)
      line["answered"] = Time.now.to_f
    end

    def close
      body.close if body.respond_to?(:close)
    end
  end

  def initialize(app, path)
    @app = app
    @path = path
  end

  def call(env)
    thread = Thread.current == Thread.main ? "" : ".#{Thread.current.object_id}"
    line = { "worker" => "#{Process.pid}#{thread}", "id" => env["HTTP_X_REQUEST_ID"].to_s, "begin" => Time.now.to_f }
    status, headers, body = @app.call(env)
    line["route"] = env["sojourn.route"]
    line["headers"] = line["answered"] = Time.now.to_f
    env["rack.after_reply"] << lambda do
      line["released"] = Time.now.to_f
      File.open(@path, "a") { |file| file.syswrite("#{JSON.generate(line)}\n") }
    end
    [status, headers, Sent.new(body, line)]
  end
end

plain = lambda do |status, text|
  [status, { "content-type" => "text/plain", "content-length" => (text.bytesize + 1).to_s }, ["#{text}\n"]]
end

number = lambda do |text, name, largest|
  value = Float(text.to_s, exception: false)
  unless value && value >= 0.0 && value <= largest
    raise ArgumentError, "#{name} must be a number from 0 to #{largest}"
  end
  value
end

sleeper = lambda do |env|
  head, text = env["PATH_INFO"].delete_prefix("/").split("/", 2)
  next plain.call(404, "there is only /sleep/<seconds> and /ready") unless head == "sleep"
  env["sojourn.route"] = "/sleep/{seconds}"
  begin
    query = Rack::Utils.parse_query(env["QUERY_STRING"])
    seconds = number.call(text, "seconds", LONGEST)
    stream = number.call(query.fetch("stream", "0"), "stream", LONGEST)
    after = number.call(query.fetch("after", "0"), "after", LONGEST)
    size = query.key?("bytes") ? number.call(query["bytes"], "bytes", LARGEST).to_i : nil
    status = Integer(query.fetch("status", "200"))
    raise ArgumentError, "status must be from 200 to 599" unless (200..599).cover?(status)
    route = query.fetch("route", "/sleep/{seconds}")
    unless route == "/sleep/{seconds}" || route.match?(%r{\A/[a-z0-9/_-]{1,60}\z})
      raise ArgumentError, "route must be a slash and a name: lower case letters, digits, '/', '_' and '-'"
    end
    env["sojourn.route"] = route
  rescue ArgumentError => error
    next plain.call(400, error.message)
  end
  sleep(seconds * SLOWDOWN)
  env["rack.after_reply"] << -> { sleep(after) } if after.positive?
  body = size ? "x" * size : format("slept %g s\n", seconds)
  headers = { "content-type" => "text/plain", "content-length" => body.bytesize.to_s }
  [status, headers, stream.positive? ? Streamed.new(body, stream) : [body]]
end

# Outside Sojourn's middleware: it is not a request of a client.
use Raindrops::Middleware if defined?(Raindrops::Middleware)
map("/ready") { run ->(_env) { plain.call(200, "ready") } }
map("/") do
  use WorkerLog, ENV["LAB_WORKER_LOG"] if ENV["LAB_WORKER_LOG"]
  use Sojourn::Middleware unless ENV["LAB_SILENT"] == "1"
  run sleeper
end
