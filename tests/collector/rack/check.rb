# Runs the checks that need no server, and answers with one JSON object. The first argument is the table of stamps.
require "json"
require_relative "../../../collector/middleware/ruby/lib/sojourn-middleware"

NOW_US = JSON.parse(File.read(ARGV[0]))["now_us"]

# Clocks that stand still at the table's instant; each further reading moves the monotonic one by 1.25 s.
def clock
  monotonic = 0
  -> { [NOW_US * 1000, monotonic += 1_250_000_000] }
end

# As a server does it: repeated headers are joined with a comma.
def env_of(headers)
  headers.each_with_object({}) do |(name, value), env|
    key = "HTTP_#{name.upcase.tr("-", "_")}"
    env[key] = env.key?(key) ? "#{env[key]},#{value}" : value
  end
end

def table
  JSON.parse(File.read(ARGV[0]))["cases"].map do |test|
    limits = test.slice("max_age", "max_future").transform_keys(&:to_sym)
    micros = { max_age: 3600, max_future: 10, **limits }.transform_values { |limit| (limit * 1_000_000).round }
    env = env_of(test["headers"])
    stack = Sojourn::Middleware.new(->(_) { [200, {}, []] }, clock: clock, **limits)
    { "read" => Sojourn::Stamp.read(env, NOW_US, micros[:max_age], micros[:max_future]),
      "headers" => stack.call(env)[1] }
  end
end

def answer(env = {}, &app)
  Sojourn::Middleware.new(app, clock: clock).call(env)
end

def raised
  yield
  nil
rescue Exception => e
  e.class.name
end

# A body that must come back as the very object it was.
def untouched?(body)
  answer { [200, {}, body] }[2].equal?(body)
end

to_path = Struct.new(:to_path).new("/some/file")
streaming = ->(stream) { stream.write("x") }
frozen = { "X-Worker" => "the app's" }.freeze
threads = Array.new(4) { Queue.new }
names = Array.new(4) do |index|
  Thread.new do
    name = answer({ "rack.multithread" => true }) { [200, {}, []] }[1]["X-Worker"]
    threads[index] << name
    sleep # until the main thread has seen all four names
  end
end
together = threads.map(&:pop)
names.each(&:kill).each(&:join)
later = Thread.new { answer({ "rack.multithread" => true }) { [200, {}, []] }[1]["X-Worker"] }.value

puts JSON.generate(
  "table" => table,
  "untouched" => [[], ["x"], to_path, streaming, [].each].map { |body| untouched?(body) },
  "frozen" => answer { [200, frozen, []] }[1],
  "frozen_after" => frozen,
  "route" => answer { |env| env["sojourn.route"] = "/é\r\nX: y"; [200, { "x-route" => "old" }, []] }[1],
  "not_utf8" => answer({ "HTTP_X_REQUEST_START" => "t=\xff\xfe" }) { [200, {}, []] }[1],
  "changed_env" => answer({ "HTTP_X_REQUEST_START" => (NOW_US - 500_000).to_s }) do |env|
    env.delete("HTTP_X_REQUEST_START")
    [200, {}, []]
  end[1],
  "newline" => answer({ "HTTP_X_REQUEST_START" => "#{NOW_US}\n" }) { [200, {}, []] }[1],
  "long_blank" => answer({ "HTTP_X_REQUEST_START" => "t=#{" " * 100_000}1" }) { [200, {}, []] }[1],
  "nil" => answer { nil },
  "error" => raised { answer { raise KeyError } },
  "exit" => raised { answer { exit 3 } },
  "bad_limits" => [-1, Float::NAN, Float::INFINITY, "60", nil].map do |limit|
    raised { Sojourn::Middleware.new(nil, max_age: limit) }
  end,
  "inner" => Sojourn::Middleware.new(
    Sojourn::Middleware.new(->(_) { [200, {}, []] }, clock: clock), clock: clock
  ).call({})[1],
  "together" => together,
  "later" => later,
  "pid" => Process.pid
)
