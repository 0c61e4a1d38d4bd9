# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"

# Rails and Sinatra, if they are installed, each in a process of its own.
class FrameworksTest < Minitest::Test
  parallelize_me!

  def run_app(name, library, *arguments)
    skip "#{library} is not installed" unless Gem::Specification.any? { |spec| spec.name == library }
    file = File.join(__dir__, "apps", "#{name}.rb")
    output, errors, status = Open3.capture3(RbConfig.ruby, "-I#{Support::ROOT}/lib", file, *arguments)
    assert status.success?, errors
    JSON.parse(output)
  end

  def rails(options = {}, kind = "plain")
    run_app("rails_app", "railties", JSON.generate(options), kind)
  end

  # Of Rails before 7.1 the route is unknown, unless the app sets it.
  def assert_routes(result)
    known = Gem::Version.new(result["version"]) >= Gem::Version.new("7.1")
    routes = result["responses"].transform_values { |_, headers| headers["x-route"] }
    expected = { "/users/7" => known ? "/users/:id" : nil, "/own/7" => "/users/own/{id}",
                 "/fail" => known ? "/fail" : nil, "/nowhere" => nil, "/other" => nil }
    assert_equal expected, routes
  end

  def test_railtie_inserts_the_middleware_first
    result = rails
    assert_routes(result)
    assert_equal %w[Sojourn::Middleware Other], result["stack"].first(2)
    assert_equal 1, result["stack"].count("Sojourn::Middleware")
    result["responses"].each_value do |_, headers|
      assert_operator headers["x-queueing-delay"].to_f, :<, 60
      assert_match(/\A\d+\.\d{6}\z/, headers["x-service-time"])
    end
    assert_equal [200, 200, 500, 404, 204], result["responses"].values.map(&:first)
    assert_equal "db;dur=1", result["responses"]["/users/7"].last["server-timing"]
  end

  def test_options_of_rails
    result = rails({ server_timing: true, max_age: 0, max_future: 0 }, "failing")
    assert_equal 1, result["log"].scan(/sojourn: the route of a request is unknown: IOError: of the option/).length
    _, headers = result["responses"]["/users/7"]
    refute_includes headers, "x-queueing-delay"
    assert_match(/\Adb;dur=1, app;dur=\d+\.\d{3}\z/, headers["server-timing"])
    refute_includes rails({ enabled: false })["stack"], "Sojourn::Middleware"
    assert_match(/max_aeg/, rails({ max_aeg: 1 })["error"])
  end

  def test_metrics_by_the_configuration
    skip "prometheus-client is not installed" unless Gem::Specification.any? { |spec| spec.name == "prometheus-client" }
    assert_nil rails["metrics"]
    metrics = rails({ prometheus: true, service: "shop" })["metrics"]
    labels = 'service="shop",route="/users/own/{id}",status_class="2xx"'
    assert_includes metrics, "sojourn_queueing_delay_seconds_count{#{labels}} 1.0"
    assert_includes metrics, "sojourn_service_time_seconds_count{#{labels}} 1.0"
    assert_equal(%w[2xx 4xx 5xx], metrics.map { |line| line[/status_class="(\w+)"/, 1] }.compact.uniq.sort)
  end

  def test_instrumentation_of_rails_is_around_the_middleware
    stack = rails({}, "instrumented")["stack"]
    assert_equal %w[OpenTelemetry::Instrumentation::Rack::Tracing Other Sojourn::Middleware].sort, stack.first(3).sort
    assert_operator stack.index("OpenTelemetry::Instrumentation::Rack::Tracing"), :<, stack.index("Sojourn::Middleware")
  end

  def test_route_of_sinatra
    expected = { "/users/7" => "/users/:id", "/" => "/", "/nowhere" => nil }
    assert_equal expected, run_app("sinatra_app", "sinatra")
  end
end
