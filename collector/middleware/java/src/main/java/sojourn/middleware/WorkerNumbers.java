package sojourn.middleware;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.WeakReference;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.PriorityQueue;

/**
 * Numbers the workers of this process 1, 2, 3, …, because an analysis counts distinct workers.
 *
 * <p>A platform thread keeps the smallest number that no living thread has, until it ends. A virtual thread lives for one
 * task, so that its request borrows the smallest free number and returns it at its end.
 */
final class WorkerNumbers {

    /** The numbers of this process. */
    static final WorkerNumbers PROCESS = new WorkerNumbers();

    private static final String PID = Long.toString(ProcessHandle.current().pid());
    private static final MethodHandle IS_VIRTUAL = isVirtualOrNull();

    private final PriorityQueue<Integer> free = new PriorityQueue<>();
    private final Map<WeakReference<Thread>, Integer> held = new LinkedHashMap<>();
    private int highest;
    // Not a subclass, and only JDK classes as values: a web application that is stopped leaves no class behind.
    private final ThreadLocal<String> names = new ThreadLocal<>();

    private static MethodHandle isVirtualOrNull() {
        try {
            return MethodHandles.publicLookup()
                    .findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
        } catch (ReflectiveOperationException beforeJava21) {
            return null;
        }
    }

    /** Returns whether the current thread is virtual: Java 21 and later. */
    static boolean isVirtualThread() {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
        } catch (Throwable unexpected) {
            throw new IllegalStateException(unexpected);
        }
    }

    /** Returns the worker with a number: {@code 1234.2}. */
    static String name(int number) {
        return PID + "." + number;
    }

    /** Returns the worker that the current platform thread is. */
    String ofThread() {
        String name = names.get();
        if (name == null) {
            name = name(hold(Thread.currentThread()));
            names.set(name);
        }
        return name;
    }

    private synchronized int hold(Thread thread) {
        returnNumbersOfEndedThreads();
        int number = borrow();
        held.put(new WeakReference<>(thread), number);
        return number;
    }

    private void returnNumbersOfEndedThreads() {
        Iterator<Map.Entry<WeakReference<Thread>, Integer>> entries = held.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry<WeakReference<Thread>, Integer> entry = entries.next();
            Thread thread = entry.getKey().get();
            if (thread == null || !thread.isAlive()) {
                free.add(entry.getValue());
                entries.remove();
            }
        }
    }

    /** Returns the smallest free number, which is in use until {@link #giveBack}. */
    synchronized int borrow() {
        Integer number = free.poll();
        return number != null ? number : ++highest;
    }

    /** Makes a borrowed number free again. */
    synchronized void giveBack(int number) {
        free.add(number);
    }
}
