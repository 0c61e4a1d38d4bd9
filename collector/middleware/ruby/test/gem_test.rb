# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require "rubygems/package"
require "tmpdir"

# The gem as it is built and installed, without a network.
class GemTest < Minitest::Test
  FILES = %w[
    LICENSE README.md lib/sojourn-middleware.rb lib/sojourn/answer.rb lib/sojourn/exchange.rb
    lib/sojourn/in_progress.rb
    lib/sojourn/middleware.rb lib/sojourn/prometheus_metrics.rb lib/sojourn/railtie.rb lib/sojourn/recording.rb lib/sojourn/route.rb
    lib/sojourn/semantics.rb lib/sojourn/stamp.rb lib/sojourn/telemetry.rb lib/sojourn/version.rb
    lib/sojourn/warnings.rb lib/sojourn/worker.rb
  ].freeze
  USE = <<~RUBY
    require "sojourn-middleware"
    middleware = Sojourn::Middleware.new(->(_env) { [200, {}, []] })
    puts [Gem.loaded_specs["sojourn-middleware"].version, Sojourn::VERSION, defined?(OpenTelemetry).inspect,
          defined?(Sojourn::Railtie).inspect, middleware.call({ "HTTP_X_REQUEST_START" => "junk" })[1].keys.join(",")]
  RUBY

  def run_ruby(*arguments, **environment)
    output, status = Open3.capture2e(environment.transform_keys(&:to_s), RbConfig.ruby, *arguments, chdir: Support::ROOT)
    assert status.success?, output
    output
  end

  def test_built_gem_can_be_installed
    Dir.mktmpdir do |folder|
      file = File.join(folder, "sojourn-middleware.gem")
      run_ruby("-S", "gem", "build", "--output", file, "sojourn-middleware.gemspec")
      spec = Gem::Package.new(file).spec
      assert_equal FILES, spec.files.sort
      assert_empty spec.dependencies

      home = File.join(folder, "home")
      run_ruby("-S", "gem", "install", "--local", "--no-document", "--install-dir", home, file)
      version = Sojourn::VERSION
      assert_equal [version, version, "nil", "nil", "X-Service-Time,X-Worker"],
                   run_ruby("-w", "-e", USE, GEM_HOME: home, GEM_PATH: home).lines(chomp: true)
    end
  end
end
