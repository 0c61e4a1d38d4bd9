package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledForJreRange;
import org.junit.jupiter.api.condition.JRE;

class WorkerNumbersTest {

    private static final String PID = Long.toString(ProcessHandle.current().pid());

    private final WorkerNumbers numbers = new WorkerNumbers();

    private String ofNewThread() throws InterruptedException {
        AtomicReference<String> name = new AtomicReference<>();
        Thread thread = new Thread(() -> name.set(numbers.ofThread()));
        thread.start();
        thread.join(TimeUnit.SECONDS.toMillis(20));
        assertFalse(thread.isAlive());
        return name.get();
    }

    @Test
    void threadKeepsItsNumber() {
        assertEquals(PID + ".1", numbers.ofThread());
        assertEquals(PID + ".1", numbers.ofThread());
    }

    @Test
    void newThreadGetsSmallestNumberOfNoLivingThread() throws InterruptedException, ExecutionException {
        ExecutorService first = Executors.newSingleThreadExecutor();
        ExecutorService second = Executors.newSingleThreadExecutor();
        try {
            assertEquals(PID + ".1", first.submit(numbers::ofThread).get());
            assertEquals(PID + ".2", second.submit(numbers::ofThread).get());
            assertEquals(PID + ".3", ofNewThread());
            assertEquals(PID + ".3", ofNewThread());
            first.shutdown();
            first.awaitTermination(20, TimeUnit.SECONDS);
        } finally {
            first.shutdownNow();
            second.shutdown();
        }
        awaitNumber(PID + ".1");
    }

    /** A pool is terminated before its last thread has ended. */
    private void awaitNumber(String expected) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        String name = ofNewThread();
        while (!name.equals(expected) && System.nanoTime() < deadline) {
            name = ofNewThread();
        }
        assertEquals(expected, name);
    }

    @Test
    void borrowedNumbersAreTheSmallestFreeOnes() {
        assertEquals(1, numbers.borrow());
        assertEquals(2, numbers.borrow());
        assertEquals(3, numbers.borrow());
        numbers.giveBack(2);
        numbers.giveBack(1);
        assertEquals(1, numbers.borrow());
        assertEquals(2, numbers.borrow());
        assertEquals(4, numbers.borrow());
        assertEquals(PID + ".5", numbers.ofThread());
    }

    @Test
    @EnabledForJreRange(min = JRE.JAVA_21)
    void virtualThreadIsRecognised() throws Exception {
        AtomicReference<Boolean> virtual = new AtomicReference<>();
        CountDownLatch done = new CountDownLatch(1);
        Runnable task = () -> {
            virtual.set(WorkerNumbers.isVirtualThread());
            done.countDown();
        };
        Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        done.await(20, TimeUnit.SECONDS);
        assertEquals(true, virtual.get());
    }

    @Test
    void platformThreadIsNotVirtual() {
        assertFalse(WorkerNumbers.isVirtualThread());
    }
}
