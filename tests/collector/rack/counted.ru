# An app whose requests last until the file RELEASE exists. /metrics, outside of the middleware, has the requests in
# progress: of prometheus-client, or, without the variable METRICS, of OpenTelemetry's API.
require "sojourn-middleware"

if (folder = ENV["METRICS"])
  require "prometheus/client"
  require "prometheus/client/data_stores/direct_file_store"
  require "prometheus/client/formats/text"

  Prometheus::Client.config.data_store = Prometheus::Client::DataStores::DirectFileStore.new(dir: folder)
  exposition = -> { Prometheus::Client::Formats::Text.marshal(Prometheus::Client.registry) }
  options = { prometheus: true, service: "shop" }
else
  $LOAD_PATH.unshift(ENV.fetch("INTERFACE"))
  require "opentelemetry_support"

  OtelSupport.start(traces: false)
  exposition = -> { "http_server_active_requests #{OtelSupport.active.values.sum}\n" }
  options = {}
end

HOLD = lambda do
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
  until File.exist?(ENV.fetch("RELEASE"))
    raise "not released" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

    sleep 0.01
  end
end

# A body that is not complete when the app returns.
class Held
  def initialize(first)
    @first = first
  end

  def each
    yield @first
    HOLD.call
    yield "last\n"
  end
end

app = lambda do |env|
  case env["PATH_INFO"]
  when "/held"
    HOLD.call
    [200, { "Content-Type" => "text/plain" }, ["ended"]]
  when "/error"
    HOLD.call
    raise "an error of the app"
  when "/lazy"
    [200, { "Content-Type" => "text/plain" }, Held.new("first\n")]
  when "/events"
    [200, { "Content-Type" => "text/event-stream" }, Held.new("data: first\n\n")]
  when "/websocket"
    socket = env["rack.hijack"].call || env["rack.hijack_io"]
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    Thread.new do
      HOLD.call
      socket.close
    end
    [-1, {}, []]
  else
    [200, { "Content-Type" => "text/plain" }, ["hello"]]
  end
end

map "/metrics" do
  run ->(_env) { [200, { "Content-Type" => "text/plain" }, [exposition.call]] }
end

map "/" do
  use Sojourn::Middleware, **options
  run app
end
