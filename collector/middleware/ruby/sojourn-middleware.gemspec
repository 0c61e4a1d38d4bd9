# frozen_string_literal: true

require_relative "lib/sojourn/version"

Gem::Specification.new do |spec|
  spec.name = "sojourn-middleware"
  spec.version = Sojourn::VERSION
  spec.summary = "Rack middleware that answers with its own queueing delay and service time."
  spec.description = "Adds the queueing delay, the service time, the worker and the route of every request to the " \
                     "headers of its response, and to OpenTelemetry. For Rack 2, Rack 3 and Rails; no dependency."
  spec.authors = ["The Sojourn authors"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 2.7"
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb"].sort } + %w[LICENSE README.md]
  spec.require_paths = ["lib"]
  spec.metadata["rubygems_mfa_required"] = "true"
end
