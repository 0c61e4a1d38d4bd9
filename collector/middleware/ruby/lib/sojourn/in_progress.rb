# frozen_string_literal: true

module Sojourn
  # The gauge of the requests that the app has started and not finished, in a registry of the gem prometheus-client, and
  # what each process has counted.
  #
  # The gem's own increment is not used: a process that gets the number of one that was killed would continue its count,
  # which is in a file of this number.
  class InProgress
    NAME = "sojourn_requests_in_progress"
    HELP = "Requests that the app has started and not finished, without WebSockets and server-sent events."

    # Seconds between two looks for the files of processes that have ended.
    LOOKS_EVERY = 1.0
    private_constant :LOOKS_EVERY

    def initialize(registry)
      store = ::Prometheus::Client.config.data_store
      # Its default for gauges is a series for each process.
      @of_files = store.class.name.to_s.end_with?("::DirectFileStore")
      @folder = @of_files ? folder_of(store) : nil
      @gauge = registry.gauge(NAME.to_sym, docstring: HELP, labels: [:service],
                                           store_settings: @of_files ? { aggregation: :sum } : {})
      @lock = Mutex.new
      @series = {}
      start_process
    end

    # Adds 1 at the start of a request, -1 at its end, 0 for a series that exists from now on.
    def add(service, requests)
      # A forked child can lock it: Ruby releases the locks of the parent's other threads.
      @lock.synchronize do
        # A fork serves none of its parent's requests, but can end one of them.
        start_process if @pid != Process.pid
        remove_files_of_dead_processes if @folder
        count = @counts[service] + requests
        count = 0 if count.negative?
        @counts[service] = count
        # With its label preset: the gem checks labels at every other call, which takes longer than the change.
        (@series[service] ||= @gauge.with_labels(service: service)).set(count)
      end
    end

    private

    def start_process
      @pid = Process.pid
      @counts = Hash.new(0)
      @next_look = 0
    end

    # The store has no method for it; without the folder, a process that was killed leaves its count.
    def folder_of(store)
      settings = store.instance_variable_get(:@store_settings)
      settings.is_a?(Hash) ? settings[:dir] : nil
    end

    # The store adds up the files of all processes, also of those that have ended.
    def remove_files_of_dead_processes
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      return if now < @next_look

      @next_look = now + LOOKS_EVERY
      Dir.glob("metric_#{NAME}___*.bin", base: @folder).each do |name|
        pid = name[/___([0-9]+)\.bin\z/, 1]
        File.delete(File.join(@folder, name)) if pid && !alive?(pid.to_i)
      rescue SystemCallError
        next # Another process has removed it.
      end
    end

    def alive?(pid)
      Process.kill(0, pid)
      true
    rescue Errno::ESRCH
      false
    rescue SystemCallError
      true # It is of another user.
    end
  end
end
