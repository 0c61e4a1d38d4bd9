# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require "tmpdir"

# The client library, if it is installed: the official gem, which has Counter#increment(by:, labels:).
module PrometheusSupport
  begin
    require "prometheus/client"
    require "prometheus/client/formats/text"
    require "prometheus/client/data_stores/direct_file_store"
    INSTALLED = true
  rescue LoadError
    INSTALLED = false
  end

  NOW_NS = 1_767_225_600_000_000_000
  STAMPED = { "HTTP_X_REQUEST_START" => "t=1767225599.900" }.freeze
  DELAYS = "sojourn_queueing_delay_seconds"

  def setup
    skip "the gem prometheus-client is not installed" unless INSTALLED
    @registry = Prometheus::Client::Registry.new
    @log = Support::Log.new
  end

  def teardown
    Prometheus::Client.config.data_store = Prometheus::Client::DataStores::Synchronized.new if INSTALLED
  end

  # Name, labels and value of every sample of an exposition; bounds as numbers.
  def samples
    lines = Prometheus::Client::Formats::Text.marshal(@registry).lines(chomp: true).grep_v(/\A#/)
    lines.to_h do |line|
      name, labels, value = line.match(/\A(\w+)\{(.*)\} (\S+)\z/).captures
      labels = labels.scan(/(\w+)="((?:[^"\\]|\\.)*)"/).to_h { |key, text| [key, text.gsub(/\\(["\\])/, "\\1")] }
      labels["le"] = number(labels["le"]) if labels.key?("le")
      [[name, labels], value.to_f.round(9)]
    end
  end

  def number(bound)
    bound == "+Inf" ? Float::INFINITY : bound.to_f
  end

  def count(status_class = "2xx", name: DELAYS, route: "", service: "")
    samples[["#{name}_count", { "service" => service, "route" => route, "status_class" => status_class }]]
  end

  def middleware(app = Support::PLAIN, **options)
    options = { clock: Support.clock(NOW_NS), prometheus: @registry, logger: @log, **options }
    Sojourn::Middleware.new(app, **options)
  end
end

# tests/vectors/prometheus.json: which metrics are exported.
class PrometheusTableTest < Minitest::Test
  include PrometheusSupport

  TABLE = Support.table("prometheus.json")
  BOUNDS = TABLE["bounds"].map(&:to_f) + [Float::INFINITY]

  TABLE["cases"].each do |vector|
    define_method("test_#{vector["name"]}") do
      serve(vector)
      assert_equal expected(vector), samples
    end

    define_method("test_of_files_#{vector["name"]}") do
      Dir.mktmpdir do |folder|
        store = Prometheus::Client::DataStores::DirectFileStore.new(dir: folder)
        Prometheus::Client.config.data_store = store
        serve(vector)
        assert_equal expected(vector), samples
      end
    end
  end

  def test_names_bounds_and_help
    assert_equal TABLE["bounds"], Sojourn::PrometheusMetrics::BUCKETS
    middleware
    registered = @registry.metrics.to_h { |metric| [metric.name.to_s, [metric.type.to_s, metric.docstring]] }
    assert_equal [*TABLE["metrics"], TABLE["in_progress"]].to_h { |metric| [metric["name"], metric.values_at("kind", "help")] }, registered
  end

  def serve(vector)
    request = nil
    monotonic = 0
    app = lambda do |env|
      env["sojourn.route"] = request["route"] if request.key?("route")
      monotonic += request["service_ns"]
      [request["status"], {}, []]
    end
    environment(vector["environment"] || {}) do
      options = (vector["options"] || {}).transform_keys(&:to_sym)
      measured = middleware(app, clock: -> { [TABLE["now_ns"], monotonic] }, **options)
      expand(vector["requests"]) do |row, place|
        request = row.merge(row.slice("route").transform_values { |route| route.gsub("#", place) })
        measured.call(row["stamp"] ? { "HTTP_X_REQUEST_START" => row["stamp"] } : {})
      end
    end
    assert_empty @log.lines
  end

  def expected(vector)
    samples = (vector["counters"] + vector["gauges"]).to_h { |each| [each.values_at("name", "labels"), each["value"].to_f] }
    expand(vector["histograms"]) do |row, place|
      labels = row["labels"].transform_values { |text| text.gsub("#", place) }
      samples[["#{row["name"]}_count", labels]] = row["buckets"].last.to_f
      samples[["#{row["name"]}_sum", labels]] = row["sum"].to_f
      BOUNDS.zip(row["buckets"]) { |le, value| samples[["#{row["name"]}_bucket", { **labels, "le" => le }]] = value.to_f }
    end
    samples
  end

  # Yields each row, and the text for its "#", once for every number of its repetition.
  def expand(rows)
    rows.each do |row|
      first, last = row["repeat"]
      first ? (first..last).each { |number| yield row, number.to_s } : yield(row, "#")
    end
  end

  def environment(values)
    before = ENV.to_h
    ENV.delete("OTEL_SERVICE_NAME")
    ENV.update(values)
    yield
  ensure
    ENV.replace(before)
  end
end

class PrometheusTest < Minitest::Test
  include PrometheusSupport

  def test_middlewares_of_one_registry_share_the_metrics
    ["", "", "shop"].each { |service| middleware(service: service).call(STAMPED.dup) }
    assert_equal [2.0, 1.0], [count, count(service: "shop")]
    middleware(service: "", prometheus_name: "queue_seconds").call(STAMPED.dup)
    assert_equal [2.0, 1.0, 3.0], [count, count(name: "queue_seconds"), count(name: "sojourn_service_time_seconds")]
  end

  def test_hundred_routes_are_those_of_all_middlewares
    101.times { |number| middleware(route: ->(_) { "/#{number}" }).call(STAMPED.dup) }
    assert_equal [1.0, 1.0, nil, 1.0], (%w[/0 /99 /100 other].map { |route| count(route: route) })
  end

  def test_default_registry
    measured = middleware(prometheus: true)
    @registry = Prometheus::Client.registry
    before = count.to_f
    measured.call(STAMPED.dup)
    assert_equal before + 1, count
  end

  def test_failed_app_has_a_delay_without_a_class_and_no_service_time
    failing = ->(env) { env["sojourn.route"] = "/failing"; raise KeyError, "on request" }
    assert_raises(KeyError) { middleware(failing).call(STAMPED.dup) }
    catch(:async) { middleware(->(_) { throw :async }).call(STAMPED.dup) }
    middleware(->(_) { [-1, {}, []] }).call(STAMPED.dup)
    assert_equal [1.0, 2.0], [count("", route: "/failing"), count("")]
    assert_nil count("", name: "sojourn_service_time_seconds")
    assert_empty @log.lines
  end

  def test_route_header_of_the_app_is_the_label
    middleware(->(_) { [200, { "x-route" => "/of/app" }, []] }).call(STAMPED.dup)
    assert_equal 1.0, count(route: "/of/app")
  end

  def test_route_that_the_app_changes_later_remains
    route = +"/users"
    middleware(->(env) { env["sojourn.route"] = route; [200, {}, []] }).call(STAMPED.dup)
    route << "/7"
    assert_equal 1.0, count(route: "/users")
  end

  def test_threads_lose_no_observation
    measured = middleware(clock_offset: 0.2)
    Array.new(4) { Thread.new { 500.times { |number| measured.call({ **STAMPED, "sojourn.route" => "/#{number % 3}" }) } } }
         .each(&:join)
    assert_equal [668.0, 668.0, 664.0], (%w[/0 /1 /2].map { |route| count(route: route) })
    assert_equal 2000.0, samples[["sojourn_negative_queueing_delays_total", { "service" => "" }]]
  end

  def in_progress(service = "")
    samples[["sojourn_requests_in_progress", { "service" => service }]]
  end

  # Serves one request; returns its gauge while the app runs, after the app's return, and after the response.
  def gauges(env = {}, **options)
    during = nil
    app = lambda do |request|
      during = in_progress
      yield request
    end
    middleware(app, **options).call({ **STAMPED, **env })
    returned = in_progress
    env.each_value { |callbacks| callbacks.each { |each| each.call(*Array.new(each.arity, nil)) } }
    [during, returned, in_progress]
  end

  def test_request_is_in_progress_until_the_app_returns
    assert_equal [1.0, 0.0, 0.0], (gauges { [200, {}, []] })
  end

  def test_request_is_in_progress_until_the_server_has_sent_the_response
    %w[rack.after_reply rack.response_finished].each do |name|
      assert_equal([1.0, 1.0, 0.0], gauges({ name => [] }) { [200, {}, []] })
    end
    assert_empty @log.lines
  end

  def test_lasting_responses_are_not_in_progress
    [[101, {}], [200, { "Content-Type" => "Text/Event-Stream; charset=utf-8" }], [200, { "content-type" => "text/event-stream" }]]
      .each { |status, headers| assert_equal([1.0, 0.0, 0.0], gauges({ "rack.after_reply" => [] }) { [status, headers, []] }) }
    assert_equal([1.0, 1.0, 0.0], gauges({ "rack.after_reply" => [] }) { [200, { "Content-Type" => "text/event-streams" }, []] })
    assert_empty @log.lines
  end

  def test_failed_app_and_a_hijacked_connection_are_not_in_progress
    assert_raises(KeyError) { gauges({ "rack.after_reply" => [] }) { raise KeyError } }
    assert_equal 0.0, in_progress
    assert_equal([1.0, 0.0, 0.0], gauges({ "rack.after_reply" => [] }) { [-1, {}, []] })
    catch(:async) { gauges { throw :async } }
    assert_equal 0.0, in_progress
  end

  def test_callbacks_that_cannot_be_added_end_the_request
    assert_equal [1.0, 0.0, 0.0], (gauges({ "rack.after_reply" => [].freeze }) { [200, {}, []] })
    assert_match(/\Asojourn: the requests in progress are not counted: FrozenError/, @log.lines.first)
  end

  # The child ends with its request, as a process that is killed, and leaves its file; the next process removes it, and
  # no file of a process that lives.
  def test_processes_that_have_ended_have_no_requests_in_progress
    Dir.mktmpdir do |folder|
      Prometheus::Client.config.data_store = Prometheus::Client::DataStores::DirectFileStore.new(dir: folder)
      file = ->(pid) { File.join(folder, "metric_sojourn_requests_in_progress___#{pid}.bin") }
      middleware
      child = fork { middleware(->(_) { exit! }).call(STAMPED.dup) }
      Process.wait(child)
      assert_equal 1.0, in_progress
      FileUtils.cp(file.call(child), file.call(Process.ppid))
      Process.wait(fork { middleware.call(STAMPED.dup); exit! })
      refute_path_exists file.call(child)
      assert_path_exists file.call(Process.ppid)
    end
  end

  def test_name_of_another_metric_of_the_app_is_one_warning
    @registry.counter(DELAYS.to_sym, docstring: "Of the app.")
    assert_equal 200, middleware.call(STAMPED.dup)[0]
    assert_equal 1, @log.lines.length
    assert_match(/\Asojourn: no metrics are exported: .*#{DELAYS} has already been registered/, @log.lines.first)
  end

  # The file system of the store becomes unusable.
  def test_failure_to_observe_is_one_warning
    Dir.mktmpdir do |folder|
      Prometheus::Client.config.data_store = Prometheus::Client::DataStores::DirectFileStore.new(dir: folder)
      measured = middleware
      FileUtils.rm_r(folder)
      2.times { assert_equal 200, measured.call(STAMPED.dup)[0] }
      FileUtils.mkdir(folder)
    end
    assert_equal 1, @log.lines.length
    assert_match(/\Asojourn: a request is not counted in the metrics: Errno::ENOENT/, @log.lines.first)
  end
end

# Without the library, or without the option.
class WithoutPrometheusTest < Minitest::Test
  # Hides the gem, whether it is installed or not.
  HIDDEN = <<~RUBY
    module Kernel
      alias_method :real_require, :require
      def require(name)
        raise LoadError, "cannot load such file -- \#{name}" if name.start_with?("prometheus")

        real_require(name)
      end
    end
  RUBY
  USE = <<~RUBY
    require "sojourn-middleware"
    status, headers, = Sojourn::Middleware.new(->(_env) { [200, {}, []] }, prometheus: %s).call({ "HTTP_X_REQUEST_START" => "junk" })
    puts [status, headers.keys.join(","), defined?(::Prometheus).inspect]
  RUBY

  def run_ruby(code)
    Open3.capture3(RbConfig.ruby, "-w", "-I#{Support::ROOT}/lib", "-e", code)
  end

  def test_missing_library_is_one_warning
    output, errors, = run_ruby(HIDDEN + format(USE, true))
    assert_equal ["200", "X-Service-Time,X-Worker", "nil"], output.lines(chomp: true)
    expected = "sojourn: no metrics are exported: LoadError: cannot load such file -- prometheus/client; " \
               "the same again will not be logged\n"
    assert_equal expected, errors
  end

  # The interface before 1.0, which a gem for memory-mapped files still has.
  def test_library_of_another_interface_is_one_warning
    Dir.mktmpdir do |folder|
      FileUtils.mkdir_p(File.join(folder, "prometheus", "client"))
      File.write(File.join(folder, "prometheus", "client.rb"), "")
      counter = "module Prometheus; module Client; class Counter; def increment(labels = {}, by = 1) [labels, by] end end end end"
      File.write(File.join(folder, "prometheus", "client", "counter.rb"), counter)
      output, errors, = run_ruby("$LOAD_PATH.unshift(#{folder.dump})\n" + format(USE, true))
      assert_equal "200", output.lines(chomp: true).first
      assert_match(/\Asojourn: no metrics are exported: LoadError: the gem prometheus-client 3\.0 or later[^\n]*\n\z/, errors)
    end
  end

  def test_library_is_not_required_without_the_option
    output, errors, = run_ruby(format(USE, false))
    assert_equal [%w[200 X-Service-Time,X-Worker nil], ""], [output.lines(chomp: true), errors]
  end

  def test_bad_options_are_refused_at_once
    [{ prometheus: "yes" }, { prometheus: nil }, { service: 7 }, { prometheus_name: "queue-time" },
     { prometheus_name: nil }, { prometheus_name: "a\nb" },
     { prometheus_name: "sojourn_service_time_seconds" }].each do |options|
      error = assert_raises(ArgumentError) { Sojourn::Middleware.new(nil, **options) }
      assert_includes error.message, options.keys.first.to_s
    end
  end
end
