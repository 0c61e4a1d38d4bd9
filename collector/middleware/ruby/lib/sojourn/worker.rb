# frozen_string_literal: true

module Sojourn
  # The name of the worker that serves a request: the process, "1234", or process and thread, "1234.2".
  module Worker
    # Numbers 1, 2, 3, … for the threads of this process; a new thread gets the smallest that no living thread holds.
    class ThreadNumbers
      def initialize
        # A forked child can lock it: Ruby releases the locks of the parent's other threads.
        @lock = Mutex.new
        @pid = nil
        @threads = []
      end

      # The number of the current thread.
      def current
        @lock.synchronize do
          # A forked child has one thread, whatever the parent had.
          if @pid != Process.pid
            @pid = Process.pid
            @threads = []
          end
          thread = Thread.current
          index = @threads.index(thread) || @threads.index { |other| !other.alive? } || @threads.length
          @threads[index] = thread
          index + 1
        end
      end
    end

    THREADS = ThreadNumbers.new
    private_constant :ThreadNumbers, :THREADS

    module_function

    # rack.multithread is true if other threads of the process serve requests at the same time.
    def name(env)
      env["rack.multithread"] ? "#{Process.pid}.#{THREADS.current}" : Process.pid.to_s
    end
  end
end
