package sojourn.middleware;

import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;

/** Ends the measurement of an asynchronous request. */
final class AsyncEnd implements AsyncListener {

    private final Exchange exchange;
    private final MeasuredResponse response;
    private volatile Throwable thrown;

    AsyncEnd(Exchange exchange, MeasuredResponse response) {
        this.exchange = exchange;
        this.response = response;
    }

    @Override
    public void onComplete(AsyncEvent event) {
        exchange.finish(0, thrown);
    }

    @Override
    public void onTimeout(AsyncEvent event) {
        response.setFigures();
    }

    @Override
    public void onError(AsyncEvent event) {
        thrown = event.getThrowable();
        response.setFigures();
    }

    @Override
    public void onStartAsync(AsyncEvent event) {
        // The measured request adds another listener.
    }
}
