# frozen_string_literal: true

require "test_helper"

class WorkerTest < Minitest::Test
  def worker
    Sojourn::Worker.name({ "rack.multithread" => true })
  end

  # Yields threads that live at the same time and have a number, by that number.
  def living(count)
    numbers = Queue.new
    threads = Array.new(count) { Thread.new { numbers << [worker.partition(".").last.to_i, Thread.current]; Thread.stop } }
    yield Array.new(count) { numbers.pop }.sort_by(&:first).to_h
  ensure
    threads.each(&:kill).each(&:join)
  end

  def test_process_without_threads
    assert_equal Process.pid.to_s, Sojourn::Worker.name({})
    assert_equal Process.pid.to_s, Sojourn::Worker.name({ "rack.multithread" => false })
  end

  def test_thread_keeps_its_number
    assert_match(/\A#{Process.pid}\.[1-9]\z/, worker)
    assert_equal worker, worker
  end

  def test_living_threads_have_different_numbers_that_are_reused
    worker
    first = living(4, &:keys)
    assert_equal 4, first.uniq.length
    5.times { assert_equal first, living(4, &:keys) }
  end

  def test_number_of_an_ended_thread_goes_to_the_next_one
    worker
    living(3) do |threads|
      number, thread = threads.to_a[1]
      thread.kill.join
      assert_equal "#{Process.pid}.#{number}", Thread.new { worker }.value
    end
  end

  def test_forked_child_starts_again
    worker
    reader, writer = IO.pipe
    living(2) do
      # Threads of the parent take numbers, and so its lock, at any moment of the fork.
      busy = Array.new(2) { Thread.new { loop { worker } } }
      children = Array.new(5) { fork { writer.write("#{Process.pid} #{worker}\n"); exit! } }
      children.each { |child| Process.wait(child) }
      busy.each(&:kill).each(&:join)
      expected = children.map { |child| "#{child} #{child}.1\n" }
      assert_equal expected.sort, Array.new(5) { reader.gets }.sort
    end
  ensure
    [reader, writer].each(&:close)
  end
end
