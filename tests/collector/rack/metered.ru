# An app with metrics in several processes: /metrics shows those of all of them.
require "prometheus/client"
require "prometheus/client/data_stores/direct_file_store"
require "prometheus/middleware/exporter"
require "sojourn-middleware"

Prometheus::Client.config.data_store = Prometheus::Client::DataStores::DirectFileStore.new(dir: ENV.fetch("METRICS"))

use Prometheus::Middleware::Exporter
use Sojourn::Middleware, prometheus: true, service: "shop"

run(lambda do |env|
  env["sojourn.route"] = env["PATH_INFO"]
  sleep 0.15
  [200, { "Content-Type" => "text/plain" }, ["slept"]]
end)
